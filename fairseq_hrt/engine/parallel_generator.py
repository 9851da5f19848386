"""The base of generators whose models write all positions in one pass."""

from typing import Dict, List, Optional, Sequence

from fairseq.data import Dictionary
from fairseq.models import FairseqEncoderDecoderModel
from torch import Tensor

from ..native.decoding import Hypothesis
from ..native.options.values import DecodingOptions
from .generator import EngineGenerator
from .language_model import LanguageModel
from .steps import single_step


class ParallelGenerator(EngineGenerator):
    """A generator that can be given neither the first words of translations nor a start symbol; a
    family defines :meth:`decode_sources`.

    Attributes:
        no_beginning: the reason why translations cannot begin with given words, for messages.
        stage: the name of the only decoding step, see :class:`DecodingStep`.
        language_model: the model of ``--ctc-lm-path`` or ``--dag-lm-path``, or None.
    """

    no_beginning: str

    def __init__(
        self,
        models: Sequence[FairseqEncoderDecoderModel],
        dictionary: Dictionary,
        options: DecodingOptions,
    ) -> None:
        super().__init__(models, dictionary, options)
        if self.forced:
            raise ValueError(
                f"--forced-start {options.forced_start}: {self.no_beginning}; leave it out"
            )
        self.stage = self.family
        self.language_model: Optional[LanguageModel] = None
        path = getattr(options, f"{self.family}_lm_path")
        if path is not None:
            self.language_model = LanguageModel(
                path,
                dictionary.symbols,
                getattr(options, f"{self.family}_lm_weight"),
                option=f"--{self.family}-lm-path",
            )

    def decode(
        self, net_input: Dict[str, Tensor], *, prefix: Optional[Tensor], start: Optional[int]
    ) -> List[List[Hypothesis]]:
        if prefix is not None or start is not None:
            raise ValueError(
                f"--prefix-size and start symbols of languages: {self.no_beginning}; leave them out"
            )
        return self.decode_sources(net_input)

    def decode_sources(self, net_input: Dict[str, Tensor]) -> List[List[Hypothesis]]:
        """Decodes one batch, fairseq's ``sample["net_input"]``, in inference mode: the hypotheses
        of each sentence, best first."""
        raise NotImplementedError

    def ranked(
        self, net_input: Dict[str, Tensor], hypotheses: List[List[Hypothesis]]
    ) -> List[List[Hypothesis]]:
        """Lets the rescorer, if there is one, rank the hypotheses of each sentence; then calls the
        step hooks with the final order."""
        found = super().ranked(net_input, hypotheses)
        device, chosen = net_input["src_tokens"].device, [best[0] for best in found]
        for announce in self.step_hooks:
            announce(single_step(self.stage, chosen, self.dictionary.pad(), device))
        return found

    def in_one_step(self, tokens: List[int], parts: List[float], bonus: float = 0.0) -> Hypothesis:
        """The hypothesis of ``tokens``, ``</s>`` last, with their log-probabilities ``parts``;
        ``bonus`` is added to the score before the length penalty."""
        total, length = sum(parts) + bonus, len(tokens)
        return Hypothesis(
            tokens=tokens,
            score=total / length**self.options.lenpen if self.options.normalize else total,
            positional_scores=parts,
            token_steps=[1] * length,
            steps=1,
            history=[tokens] if self.options.retain_iter_history else [],
        )
