"""Task ``translation_jacobi``: any autoregressive checkpoint, decoded several tokens a pass."""

from argparse import ArgumentParser, Namespace
from typing import Dict, List, Sequence

from fairseq.models import FairseqEncoderDecoderModel
from fairseq.tasks import register_task
from torch import Tensor

from ..engine import on_device
from ..native.families import check_dictionaries
from ..native.options.schema import MODEL_DRAFTS
from ..native.options.values import DecodingOptions
from ..task import EngineTranslationTask
from .config import JacobiTaskConfig
from .drafts import Drafter, ModelDrafter, NGramDrafter, SourceDrafter, load_draft_model
from .generator import JacobiGenerator


@register_task("translation_jacobi", dataclass=JacobiTaskConfig)
class JacobiTranslationTask(EngineTranslationTask):
    """Decodes any autoregressive checkpoint in fewer passes, with the results of greedy search."""

    cfg: JacobiTaskConfig
    family = "jacobi"

    @classmethod
    def add_args(cls, parser: ArgumentParser) -> None:
        """Adds the task's options, and makes greedy search the default of commands that decode."""
        super().add_args(parser)
        if parser.get_default("beam") is not None:
            parser.set_defaults(beam=1)

    def make_generator(
        self, models: Sequence[FairseqEncoderDecoderModel], options: DecodingOptions
    ) -> JacobiGenerator:
        self.require_left_to_right(models)
        return JacobiGenerator(
            models, self.target_dictionary, options, drafter=self.make_drafter(models, options)
        )

    def make_drafter(
        self, models: Sequence[FairseqEncoderDecoderModel], options: DecodingOptions
    ) -> Drafter:
        """The drafter that ``--jacobi-draft`` names, which guesses translations that ``models``
        check.

        Raises:
            ValueError: the draft model has no path, or other dictionaries than this task; or the
                draft is ``source``, and the two languages have different dictionaries.
        """
        draft, path = options.jacobi_draft, options.jacobi_draft_path
        if draft in MODEL_DRAFTS and path is None:
            raise ValueError(
                f"--jacobi-draft {draft} needs --jacobi-draft-path: give a checkpoint of"
                f" translation_{draft}"
            )
        if draft == "ngram":
            return NGramDrafter()
        if draft == "source":
            source, target = self.source_dictionary, self.target_dictionary
            check_dictionaries(options, source.symbols, target.symbols)
            return SourceDrafter(source)
        if draft == "previous":
            return Drafter()
        assert path is not None
        task, drafting = load_draft_model(
            path,
            draft,
            beside=self.cfg,
            source=self.source_dictionary,
            target=self.target_dictionary,
            options=options.jacobi_draft_options,
        )
        greedy = task.decoding_options(Namespace(), beam=1)
        generator = task.make_generator(drafting, greedy)

        def translate(net_input: Dict[str, Tensor]) -> List[List[int]]:
            on_device(drafting, models[0])
            return [best[0].tokens for best in generator.find({"net_input": net_input})]

        return ModelDrafter(translate)
