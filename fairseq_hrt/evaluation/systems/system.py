"""The base class of all systems in a comparison, and the systems that are decoded through a task of
fairseq."""

from dataclasses import replace
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, cast

import torch
from fairseq import tasks, utils
from fairseq.data import Dictionary, FairseqDataset
from torch import Tensor, nn

from ...decoding_task import numbers
from ...engine import GenerationCounters, NativeGenerator, require_decoding_options
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

# Options of systems besides those of decoding: how sentences are read and words are joined.
OF_SYSTEMS = {"dataset_impl", "post_process", "remove_bpe", "truncate_source"}


def subwords(dictionary: Dictionary, tokens: Sequence[int]) -> str:
    """The subwords of ``tokens``, joined by spaces, without ``<s>`` and ``</s>``. Faster than
    ``dictionary.string``, which handles each id as a tensor."""
    symbols, ends = dictionary.symbols, (dictionary.bos(), dictionary.eos())
    return " ".join([symbols[token] for token in tokens if token not in ends])


def continuation(dictionary: Dictionary) -> str:
    """The value of ``--post-process`` that joins the subwords of a dictionary to words:
    ``sentencepiece`` or ``@@ ``."""
    kind = kind_of_subwords(dictionary.symbols)
    return kind if kind == "sentencepiece" else "@@ "


class System:
    """A decoder and the data that it translates; ready to decode once it is constructed.

    This base class handles the data: it makes batches, and turns tokens into text. A subclass loads
    the decoder.

    Args:
        spec: the description of the system.
        data: the data folder and the options that choose its sentences and languages, see
            :func:`.specification.generate_arguments`.
        task_name: the task that reads the data.
        options: the options for ``fairseq-generate``; None: all those of ``spec``.

    Attributes:
        name: the name in tables.
        config: the configuration of ``fairseq-generate``.
        task: fairseq's task, with both dictionaries.
        engine: the decoder: ``torch``, ``native`` or ``ctranslate2``.
        beam: the number of hypotheses that the search keeps.
        counters: encoder and decoder calls since the last reset.
        device, dtype: where the decoder computes, and the data type of its weights, e.g.
            ``float32``.
        models, generator: fairseq's models and the task's generator; empty and None where another
            engine decodes.
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
        require_decoding_options(spec.given - OF_SYSTEMS, spec.subject)
        chosen = spec if options is None else replace(spec, options=options)
        self.config = generation_config(generate_arguments(chosen, data, task_name), spec.subject)
        if "engine" in self.config.task:
            self.config.task.engine = "auto" if spec.engine == "auto" else "torch"
        with reading(spec.subject, "cannot be set up"):
            self.task = tasks.setup_task(self.config.task)
        # How the data are read: as in the training, once a checkpoint has been loaded.
        self.read_as = self.config.task
        self.subset: str = self.config.dataset.gen_subset
        self.counters = GenerationCounters()

    @property
    def reloadable(self) -> SystemSpec:
        """A specification from which another process can load the same system, as long as this
        object lives."""
        raise NotImplementedError

    @property
    def model_bytes(self) -> int:
        """The size in bytes of the weights that the system decodes with."""
        raise NotImplementedError

    @property
    def longest_source(self) -> Optional[int]:
        """The most tokens that a source may have, ``</s>`` included, for the system and for a model
        that rescores its translations; None: not known."""
        return None

    def shown(self) -> Dict[str, str]:
        """Task, engine, checkpoint and every given option, for a report."""
        raise NotImplementedError

    def signature(self) -> Dict[str, str]:
        """How the system decodes, by name, for a report: the entries of :meth:`shown` and, added to
        them, ``beam``, ``dtype`` (data type of the weights) and ``device``."""
        own = {"beam": str(self.beam), "dtype": self.dtype, "device": self.device.type}
        return {**self.shown(), **own}

    @property
    def dataset(self) -> FairseqDataset:
        """The sentences of the data, loaded at the first access: a system that translates only
        other text needs none."""
        if self.subset not in self.task.datasets:
            self.task.load_dataset(self.subset, task_cfg=self.read_as)
        return self.task.dataset(self.subset)

    def collate(self, ids: Sequence[int]) -> Dict[str, Any]:
        """The batch of the sentences ``ids``, in the form that :meth:`decode` takes. Its entry
        ``id`` lists the ids in the order of the batch, which may differ from that of ``ids``."""
        return self.batch(ids, [self.dataset[i]["source"] for i in ids])

    def collate_text(self, lines: Sequence[str]) -> Dict[str, Any]:
        """The batch of sentences that are given as words of the source dictionary (tokenised, in
        subwords), separated by spaces; their ids are their indices."""
        dictionary = self.task.source_dictionary
        rows = [dictionary.encode_line(line, add_if_not_exist=False).long() for line in lines]
        return self.batch(range(len(lines)), rows)

    def batch(self, ids: Sequence[int], rows: Sequence[Tensor]) -> Dict[str, Any]:
        """Makes a batch of sources.

        Args:
            ids: an id for each source.
            rows: the sources, LongTensors ``[S]`` that end in ``</s>``.

        Returns:
            Subclasses return the form their decoder takes; this base returns ``{"id": LongTensor of
            ids, "rows": lists of token ids}``, without the padding symbols that a text may contain.
        """
        pad = self.task.source_dictionary.pad()
        lists = [[token for token in row.tolist() if token != pad] for row in rows]
        return {"id": torch.tensor(list(ids)), "rows": lists}

    def decode(self, sample: Dict[str, Any]) -> List[List[Hypothesis]]:
        """Translates the batch ``sample``. Returns for each sentence, in the batch's order, its
        hypotheses, best first, at most as many as the option ``nbest``."""
        raise NotImplementedError

    def without_scores(self) -> None:
        """Announces that the caller will not read scores; an engine that is faster without them
        then leaves them out."""

    def text(self, tokens: Sequence[int]) -> str:
        """The words of target ``tokens``, separated by spaces, with subwords joined and special
        symbols left out."""
        dictionary = self.task.target_dictionary
        ignored = getattr(self.generator, "symbols_to_strip_from_output", {dictionary.eos()})
        joined_by = self.config.common_eval.post_process or continuation(dictionary)
        return dictionary.string(tokens, joined_by, extra_symbols_to_ignore=ignored)


class FairseqSystem(System):
    """A system that is decoded through its task: by this package's engines for its own tasks, else
    by fairseq's generators.

    It is built as ``fairseq-generate`` builds it (``setup_task``, ``load_model_ensemble``,
    ``build_generator``), so that all decoders are measured under the same conditions. ``engine`` of
    the specification may be ``auto``; any other value means ``torch``.

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
        # Read after build_generator, which sets the beam to 1 for decoders that have none.
        self.beam = self.config.generation.beam
        self.engine, self.dtype = "torch", numbers(self.models).partition(" ")[0]
        if isinstance(self.generator, NativeGenerator):
            self.engine, self.dtype = "native", self.generator.options.weights
        counters = getattr(self.generator, "counters", None)
        self.counters = count_calls(self.models) if counters is None else counters

    @property
    def reloadable(self) -> SystemSpec:
        return self.spec

    @property
    def model_bytes(self) -> int:
        """The size in bytes of the weights in the type that they are decoded in; weights that
        several modules share count once."""
        if isinstance(self.generator, NativeGenerator):
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
        if isinstance(self.generator, NativeGenerator):
            self.generator.without_scores()

    def collate(self, ids: Sequence[int]) -> Dict[str, Any]:
        """fairseq's batch of the sentences ``ids``, with the references."""
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
    """Makes stock fairseq ``models`` count the calls of their encoders and decoders from now on, in
    the returned counters.

    fairseq's ``EnsembleModel`` calls ``decoder.forward`` directly, which forward hooks do not see;
    therefore the method of each instance is wrapped. The attribute ``sentences`` of the counters
    stays 0, since a decoder is not told for how many sentences it is called.
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
