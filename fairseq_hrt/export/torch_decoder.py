"""Decodes a bundle's checkpoints with PyTorch: by this package's engine, or by fairseq's generator
if the task is fairseq's."""

import os
import tempfile
import threading
from collections import OrderedDict
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import (
    Any,
    Dict,
    FrozenSet,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Tuple,
)

import numpy as np
import torch
from fairseq import tasks
from fairseq.data import LanguagePairDataset

from ..decoding_task import numbers
from ..engine import EngineGenerator, require_decoding_options
from ..engine.graphs import free_dropped
from ..engine.models import (
    build_generator,
    find,
    generation_config,
    load_models,
    option_arguments,
    to_device,
)
from ..loading.checkpoints import read_checkpoint, reading, task_name
from ..loading.data_options import options_of_training
from ..native.bundles.bundle import Bundle
from ..native.bundles.decoder import Wanted, Watch
from ..native.bundles.translation import longest_first
from ..native.decoding import Hypothesis
from ..native.families import GRAPH_MODELS
from ..native.io.forks import renew_in_forks

# The most generators that are kept, each for other options.
DECODERS = 8


class Prepared(NamedTuple):
    """A generator that is ready to decode with certain options: fairseq's task, the generator that
    it built, and the number of translations per sentence."""

    task: Any
    generator: Any
    nbest: int


class TorchDecoder:
    """Decodes a bundle with PyTorch, behind the interface
    :class:`..native.bundles.decoder.Decoder`. Calls from several threads take turns.

    Args:
        bundle: the bundle to decode.
        device: ``cpu``, ``cuda`` or ``cuda:N``; None: a GPU if there is one, else the CPU.
    """

    def __init__(self, bundle: Bundle, *, device: Optional[str] = None) -> None:
        self.bundle, self.device = bundle, device_named(device)
        self._start_anew(forked=False)
        # The weights never change: a fork keeps them.
        renew_in_forks(self, partial(TorchDecoder._start_anew, forked=True))
        # Read once: for the options of the training here, for the model below.
        self._states = {str(bundle.paths[0]): read_checkpoint(bundle.paths[0])}
        self.trained_task = self._states[str(bundle.paths[0])]["cfg"].task
        self.models: List[Any] = []

    def _start_anew(self, forked: bool) -> None:
        self._lock, self._forked = threading.Lock(), forked
        self._kept: OrderedDict[Tuple[Any, ...], Prepared] = OrderedDict()

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """A context in which no other thread uses the models.

        Raises:
            RuntimeError: the process is a fork of the one that loaded them, and PyTorch would wait
                for ever for threads, or for a GPU, that it has lost.
        """
        if self._forked and (self.device.type != "cpu" or torch.get_num_threads() > 1):
            raise RuntimeError(
                "PyTorch's threads and GPUs do not survive a fork: load the model in the forked"
                " process alone, or with threads=1 on the CPU, or use the native engine"
            )
        with self._lock:
            yield

    def identity(self) -> Dict[str, Any]:
        """What translations depend on besides bundle and options: ``{"engine": "torch", "device":
        "cpu" or "cuda"}``; see :meth:`..native.bundles.decoder.Decoder.identity`."""
        return {"engine": "torch", "device": self.device.type}

    def describe(self) -> str:
        """The engine and, once models are loaded, the type and device of their weights; then
        whether batches were decoded with CUDA graphs (:attr:`EngineGenerator.ways`)."""
        if not self.models:
            return "PyTorch"
        ways = [
            way for one in list(self._kept.values()) for way in getattr(one.generator, "ways", ())
        ]
        return ", ".join([f"PyTorch: {numbers(self.models)}", *dict.fromkeys(ways)])

    def prepare(
        self, options: Mapping[str, str], wanted: Wanted, given: FrozenSet[str]
    ) -> Prepared:
        """Checks decoding options and builds a generator for them, or returns the generator of an
        earlier call with the same ones; see :meth:`..native.bundles.decoder.Decoder.prepare`.

        Args:
            options: {name: text}.
            wanted: the batch size and the results, such as alignments, of the calls to come.
            given: names of the options that are refused if they have no effect.
        """
        chosen = {**options, **({"score_reference": "true"} if wanted.given else {})}
        if chosen.pop("alignments", "false") != "false":
            chosen["print_alignment"] = "hard"
        if wanted.given:
            # Set by multilingual bundles; given translations have their own language token.
            chosen.pop("forced_start", None)
        if not wanted.given and chosen.get("score_reference", "false") != "false":
            raise ValueError(
                "score_reference=true rates given translations: use score(), or fairseq-generate"
                " --score-reference"
            )
        key = (wanted.alignments, wanted.graphs, given, *sorted(chosen.items()))
        with self._turn():
            if key not in self._kept:
                with splittable(self.bundle.folder) as folder:
                    self._kept[key] = self._build(chosen, folder, wanted, given)
                if len(self._kept) > DECODERS:
                    self._kept.popitem(last=False)
                    free_dropped()
            self._kept.move_to_end(key)
            return self._kept[key]

    def longest(self, prepared: Prepared) -> Tuple[int, int]:
        """The most tokens of (a source, a translation), ``</s>`` included."""
        limits = [prepared.task.max_positions(), *(model.max_positions() for model in self.models)]
        source = min(limit[0] if isinstance(limit, (tuple, list)) else limit for limit in limits)
        return source, min(model.max_decoder_positions() for model in self.models)

    def decode(
        self, prepared: Prepared, rows: List[List[int]], wanted: Wanted, watch: Watch
    ) -> List[List[Hypothesis]]:
        """Translates sources (``rows``), lists of ids that end in ``</s>``, in batches of at most
        ``wanted.batch_size``; returns the hypotheses of each, best first. ``watch``: callbacks for
        progress and for ending the call early."""
        found: List[List[Hypothesis]] = [[] for _ in rows]
        done = 0
        with self._turn():
            for members in longest_first(rows, wanted.batch_size):
                watch.go_on()
                sample = self._sample(prepared.task, [rows[number] for number in members])
                for number, best in zip(sample["id"].tolist(), self._found(prepared, sample)):
                    found[members[number]] = best
                done += len(members)
                if watch.progress is not None:
                    watch.progress(done, len(rows))
        return found

    def score(
        self, prepared: Prepared, sources: List[List[int]], targets: List[List[int]], wanted: Wanted
    ) -> List[Hypothesis]:
        """Scores ``targets[i]`` as the translation of ``sources[i]``, both lists of ids that end in
        ``</s>``; returns a hypothesis with log-probabilities for each. See
        :meth:`..native.bundles.decoder.Decoder.score`."""
        found: List[Any] = [None] * len(sources)
        with self._turn():
            for members in longest_first(sources, wanted.batch_size):
                sample = self._pairs(
                    prepared.task, [sources[n] for n in members], [targets[n] for n in members]
                )
                for number, best in zip(sample["id"].tolist(), self._found(prepared, sample)):
                    found[members[number]] = best[0]
        return found

    def graphs(
        self, prepared: Prepared, rows: List[List[int]], wanted: Wanted, watch: Watch
    ) -> List[Dict[str, Any]]:
        """Describes the graph of words that the model writes for each source, a list of ids that
        ends in ``</s>``, as plain data; see :meth:`..native.bundles.decoder.Decoder.graphs`."""
        found: List[Dict[str, Any]] = []
        with self._turn():
            for start in range(0, len(rows), wanted.batch_size):
                watch.go_on()
                sample = self._sample(prepared.task, rows[start : start + wanted.batch_size])
                documents = prepared.generator.describe_graphs(self.models, sample)
                # A batch is ordered by length.
                found += [documents[place] for place in sample["id"].argsort().tolist()]
        return found

    # ------------------------------------------------------------------ batches

    def _found(self, prepared: Prepared, sample: Dict[str, Any]) -> List[List[Hypothesis]]:
        """Decodes the batch ``sample``, and returns the hypotheses of each of its sentences, best
        first, in the batch's order."""
        return find(prepared.task, prepared.generator, self.models, sample, prepared.nbest)

    def _sample(self, task: Any, rows: List[List[int]]) -> Dict[str, Any]:
        dataset = task.build_dataset_for_inference(
            [torch.tensor(row) for row in rows], [len(row) for row in rows]
        )
        return self._collated(dataset)

    def _pairs(
        self, task: Any, sources: List[List[int]], targets: List[List[int]]
    ) -> Dict[str, Any]:
        columns = [[torch.tensor(row) for row in rows] for rows in (sources, targets)]
        sizes = [np.array([len(row) for row in rows]) for rows in columns]
        dataset = LanguagePairDataset(
            columns[0], sizes[0], task.source_dictionary, columns[1], sizes[1],
            task.target_dictionary, left_pad_source=task.cfg.left_pad_source,
            left_pad_target=False, shuffle=False,
        )  # fmt: skip
        return self._collated(dataset)

    def _collated(self, dataset: Any) -> Dict[str, Any]:
        """All sentences of a data set as one batch on the model's device."""
        return to_device(
            dataset.collater([dataset[number] for number in range(len(dataset))]), self.device
        )

    # ------------------------------------------------------------------ loading

    def _build(
        self, chosen: Dict[str, str], folder: Path, wanted: Wanted, given: FrozenSet[str]
    ) -> Prepared:
        """Builds the task and the generator for the decoding options ``chosen``, {name: text}; the
        first call also loads the models. ``folder``: a path of the bundle without a colon, see
        :func:`splittable`; ``wanted`` (results) and ``given`` (names): as in :meth:`prepare`."""
        config = self._configuration(chosen, folder, given)
        if config.generation.prefix_size:
            raise ValueError(
                f"prefix_size={config.generation.prefix_size}: there are no target lines to"
                " take words from; leave it out, or use fairseq-generate"
            )
        if config.common.cpu and self.device.type != "cpu":
            raise ValueError(f"cpu=true, but the device is {self.device}: give device cpu instead")
        # A dictionary is a file of unknown origin, too.
        with reading(self.bundle.folder, "has no usable dictionaries", keep=(OSError,)):
            task = tasks.setup_task(config.task)
        if not self.models:
            self.models = load_models(
                self.bundle.paths, config, task, self.device, states=self._states
            ).models
            self._states = {}
        generator = build_generator(task, self.models, config, given)
        if wanted.alignments or chosen.get("print_alignment"):
            if not isinstance(generator, EngineGenerator):
                raise ValueError(
                    f"{'--replace-unk' if wanted.alignments else '--alignments'}: the task"
                    f" {config.task._name} does not align words; use one of this package's (--set"
                    " task=translation_autoregressive)"
                )
            if wanted.alignments:
                generator.align_words()
        if wanted.graphs and not hasattr(generator, "describe_graphs"):
            raise ValueError(
                f"{self.bundle.folder} holds no model that writes graphs: give a bundle of a"
                f" {GRAPH_MODELS}"
            )
        return Prepared(task, generator, config.generation.nbest)

    def _configuration(
        self, chosen: Dict[str, str], folder: Path, given: FrozenSet[str] = frozenset()
    ) -> Any:
        """fairseq's configuration, made by its own parser with its checks and defaults.

        ``chosen`` are the decoding options; ``folder`` is a path of the bundle without a colon, see
        :func:`splittable`; ``given`` are the names of those that the caller has chosen, also
        switches that are off.
        """
        bundle = self.bundle
        require_decoding_options(given, "decoding options")
        paths = os.pathsep.join(str(folder / path.name) for path in bundle.paths)
        arguments = [
            str(folder), "--path", paths, "--task", chosen.get("task", bundle.task),
            "--source-lang", bundle.source_lang, "--target-lang", bundle.target_lang,
        ]  # fmt: skip
        arguments += option_arguments(
            {name: value for name, value in chosen.items() if name != "task"}
        )
        config = generation_config(arguments, "decoding options")
        task, saved = config.task, self.trained_task
        named = given | {
            argument[2:].partition("=")[0].replace("-", "_")
            for argument in arguments
            if argument.startswith("--")
        }
        # Options not given now stay as in training; fairseq-generate takes their defaults.
        if task_name(saved) == task._name:
            for name, value in options_of_training(saved, task._name).items():
                if name in task and name not in named:
                    task[name] = value
        if "engine" in task:
            task.engine = "torch"
        return config


def device_named(name: Optional[str]) -> torch.device:
    """The PyTorch device with the ``name`` ``cpu``, ``cuda`` or ``cuda:N``; None: a GPU if there is
    one, else the CPU.

    Raises:
        ValueError: there is no such device.
    """
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        device = None
    if device is None or device.type not in ("cpu", "cuda"):
        raise ValueError(f"device {name!r} is unknown: give cpu, cuda or cuda:N")
    if device.type == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if (device.index or 0) >= count:
            raise ValueError(
                f"device {name!r}: PyTorch finds {count or 'no'} GPU{'s' * (count > 1)} here; give"
                " cpu or another one"
            )
    return device


@contextmanager
def splittable(folder: Path) -> Iterator[Path]:
    """A context with a path of ``folder`` that has no colon, which fairseq would read as a path
    separator: the path itself, or that of a temporary link.

    Raises:
        ValueError: the path of the folder for temporary files has a colon, too.
    """
    if os.pathsep not in str(folder):
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="fairseq_hrt_") as temporary:
        if os.pathsep in temporary:
            raise ValueError(
                f"both {folder} and the folder for temporary files ({temporary}) contain"
                f" {os.pathsep!r}, which fairseq reads as a path separator: set TMPDIR to a folder"
                f" without {os.pathsep!r}"
            )
        link = Path(temporary) / "bundle"
        link.symlink_to(folder.resolve(), target_is_directory=True)
        yield link
