"""The base of every system, whatever decodes it, and the systems that a task of fairseq's
decodes."""

from dataclasses import replace
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, cast

import torch
from fairseq import tasks, utils
from fairseq.data import Dictionary, FairseqDataset
from torch import Tensor, nn

from ...decoding_task import numbers
from ...engine import GenerationCounters, PackedGenerator
from ...engine.models import (
    build_generator,
    choose_device,
    find,
    generation_config,
    load_models,
    to_device,
)
from ...loading.checkpoints import reading, task_of_checkpoint
from ...native.decoding import Hypothesis
from ...native.text.recipe import kind_of_subwords
from .specification import SystemSpec, generate_arguments


def subwords(dictionary: Dictionary, tokens: Sequence[int]) -> str:
    """``dictionary.string`` of ids, which looks at each as a tensor of its own."""
    symbols, ends = dictionary.symbols, (dictionary.bos(), dictionary.eos())
    return " ".join([symbols[token] for token in tokens if token not in ends])


def continuation(dictionary: Dictionary) -> str:
    """How the subwords of a dictionary are joined, as ``--post-process`` names it."""
    kind = kind_of_subwords(dictionary.symbols)
    return kind if kind == "sentencepiece" else "@@ "


class System:
    """A decoder and the data that it is run on; complete as soon as it is made.

    This is the data: what is decoded, in batches, and the text of what was. A subclass loads the
    decoder.

    Args:
        spec: what is decoded.
        data: see :func:`.specification.generate_arguments`.
        task_name: the task that reads the data.
        options: of ``fairseq-generate``; None: all of the spec's.

    Attributes:
        name: shown in tables.
        config: of ``fairseq-generate``.
        task: of fairseq, set up, with both dictionaries.
        engine: ``torch``, ``native`` or ``ctranslate2``: what decodes.
        beam: hypotheses that are kept.
        counters: encoder and decoder calls since the last reset.
        device, dtype: where the decoder computes, and the kind of its weights.
        models, generator: those of a task; none where another engine decodes.
    """

    engine: str
    beam: int
    dtype: str
    device = torch.device("cpu")
    models: Sequence[nn.Module] = ()
    generator: Any = None

    def __init__(
        self,
        spec: SystemSpec,
        data: Sequence[str],
        task_name: str,
        options: Optional[Mapping[str, str]] = None,
    ) -> None:
        self.spec, self.name, self.task_name = spec, spec.name, task_name
        chosen = spec if options is None else replace(spec, options=options)
        self.config = generation_config(generate_arguments(chosen, data, task_name), spec.subject)
        if "engine" in self.config.task:
            self.config.task.engine = "auto" if spec.engine == "auto" else "torch"
        with reading(spec.subject, "cannot be set up"):
            self.task = tasks.setup_task(self.config.task)
        # By the training's configuration once there is one.
        self.read_as = self.config.task
        self.subset: str = self.config.dataset.gen_subset
        self.counters = GenerationCounters()

    @property
    def reloadable(self) -> SystemSpec:
        """What another process loads this very system from, as long as this object lives."""
        raise NotImplementedError

    @property
    def model_bytes(self) -> int:
        """Size of the weights that it decodes with."""
        raise NotImplementedError

    @property
    def longest_source(self) -> Optional[int]:
        """Tokens of a source that it reads at most, ``</s>`` included, a model that chooses among
        its translations, too; None: not known."""
        return None

    def shown(self) -> Dict[str, str]:
        """Task, engine, checkpoint and every given option for a report."""
        raise NotImplementedError

    def signature(self) -> Dict[str, str]:
        """How the system decodes: what :meth:`shown` has, number type, device."""
        own = {"beam": str(self.beam), "dtype": self.dtype, "device": self.device.type}
        return {**self.shown(), **own}

    @property
    def dataset(self) -> FairseqDataset:
        """The sentences, loaded when they are first asked for: whoever translates text of his own
        needs none."""
        if self.subset not in self.task.datasets:
            self.task.load_dataset(self.subset, task_cfg=self.read_as)
        return self.task.dataset(self.subset)

    def collate(self, ids: Sequence[int]) -> Dict[str, Any]:
        """The batch of the sentences ``ids``, as the decoder takes it; their order is its
        ``id``."""
        return self.batch(ids, [self.dataset[i]["source"] for i in ids])

    def collate_text(self, lines: Sequence[str]) -> Dict[str, Any]:
        """The batch of sentences given as words of the source dictionary (tokenised, in
        subwords)."""
        dictionary = self.task.source_dictionary
        rows = [dictionary.encode_line(line, add_if_not_exist=False).long() for line in lines]
        return self.batch(range(len(lines)), rows)

    def batch(self, ids: Sequence[int], rows: Sequence[Tensor]) -> Dict[str, Any]:
        """A batch of sources that end in ``</s>``, LongTensors ``[S]``; here as lists, without
        padding symbols that a text may contain."""
        pad = self.task.source_dictionary.pad()
        lists = [[token for token in row.tolist() if token != pad] for row in rows]
        return {"id": torch.tensor(list(ids)), "rows": lists}

    def decode(self, sample: Dict[str, Any]) -> List[List[Hypothesis]]:
        """Hypotheses of each sentence in ``sample``, best first, at most ``nbest``."""
        raise NotImplementedError

    def without_scores(self) -> None:
        """Scores are not read any more: an engine that decodes more quickly without them leaves
        them out."""

    def text(self, tokens: Sequence[int]) -> str:
        """The words of target ``tokens``, subwords joined, special symbols left out."""
        dictionary = self.task.target_dictionary
        ignored = getattr(self.generator, "symbols_to_strip_from_output", {dictionary.eos()})
        joined_by = self.config.common_eval.post_process or continuation(dictionary)
        return dictionary.string(tokens, joined_by, extra_symbols_to_ignore=ignored)


class FairseqSystem(System):
    """A system decoded through its task, this package's engine included.

    It is built the way ``fairseq-generate`` builds it (``setup_task``, ``load_model_ensemble``,
    ``build_generator``), so that one decoder is never measured by kinder rules than another.
    ``engine`` of the spec is ``auto`` or counts as ``torch``; fairseq's own tasks have no other.

    Raises:
        ValueError: ``fairseq-generate`` would not accept an option (named in the message).
        OSError: a checkpoint is missing or unreadable.
    """

    def __init__(self, spec: SystemSpec, data: Sequence[str]) -> None:
        paths = utils.split_paths(spec.path)
        super().__init__(spec, data, spec.task or task_of_checkpoint(paths[0]))
        self.device = choose_device(self.config)
        self.models, saved = load_models(paths, self.config, self.task, self.device)
        self.read_as = saved.task
        self.generator = build_generator(self.task, self.models, self.config, spec.given)
        # The beam that is really used: one path of a graph has none.
        self.beam = self.config.generation.beam
        self.engine, self.dtype = "torch", numbers(self.models).partition(" ")[0]
        if isinstance(self.generator, PackedGenerator):
            self.engine, self.dtype = "native", self.generator.options.weights
        counters = getattr(self.generator, "counters", None)
        self.counters = count_calls(self.models) if counters is None else counters

    @property
    def reloadable(self) -> SystemSpec:
        return self.spec

    @property
    def model_bytes(self) -> int:
        """Size of the weights as they are decoded with; what several modules share counts once."""
        if isinstance(self.generator, PackedGenerator):
            return self.generator.engine.weight_bytes
        weights = {
            weight.data_ptr(): weight for model in self.models for weight in model.parameters()
        }
        return sum(weight.numel() * weight.element_size() for weight in weights.values())

    @property
    def longest_source(self) -> int:
        limits = [cast(Any, model).max_positions()[0] for model in self.models]
        rescorer = getattr(self.generator, "rescorer", None)
        return min(limits if rescorer is None else [*limits, rescorer.judge.longest_source])

    def shown(self) -> Dict[str, str]:
        return {"task": self.task_name, **self.spec.shown(), "engine": self.engine}

    def without_scores(self) -> None:
        if isinstance(self.generator, PackedGenerator):
            self.generator.without_scores()

    def collate(self, ids: Sequence[int]) -> Dict[str, Any]:
        """A batch of fairseq's, with the references."""
        return to_device(self.dataset.collater([self.dataset[i] for i in ids]), self.device)

    def batch(self, ids: Sequence[int], rows: Sequence[Tensor]) -> Dict[str, Any]:
        dataset = self.task.build_dataset_for_inference(rows, [len(row) for row in rows])
        return to_device(dataset.collater([dataset[i] for i in range(len(rows))]), self.device)

    def decode(self, sample: Dict[str, Any]) -> List[List[Hypothesis]]:
        nbest = self.config.generation.nbest
        found = find(self.task, self.generator, self.models, sample, nbest)
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        return found


def count_calls(models: Sequence[Any]) -> GenerationCounters:
    """Counts the calls of the encoders and decoders of stock fairseq ``models``.

    fairseq's ``EnsembleModel`` calls ``decoder.forward`` directly, which forward hooks do not see;
    therefore the method of each instance is wrapped. ``sentences`` stays 0: a decoder cannot tell
    how many it serves.
    """
    counters = GenerationCounters()

    def counted(forward: Callable[..., Any], field: str) -> Callable[..., Any]:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            setattr(counters, field, getattr(counters, field) + 1)
            return forward(*args, **kwargs)

        return wrapper

    for model in models:
        model.encoder.forward = counted(model.encoder.forward, "encoder_calls")
        model.decoder.forward = counted(model.decoder.forward, "decoder_calls")
    return counters
