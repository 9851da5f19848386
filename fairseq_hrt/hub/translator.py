"""The Python interface: raw text in, raw text out.

model = fairseq_hrt.from_pretrained("bundle")
model.translate(["Good morning."])                                # ["Guten Morgen."]
model.translate(["Good morning."], details=True, beam=5)[0].score
model.score(["Good morning."], ["Guten Morgen."])
"""

import os
import tempfile
import threading
from collections import OrderedDict
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Callable, Container, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np
import torch
from fairseq import tasks
from fairseq.data import LanguagePairDataset

from ..loading.checkpoints import read_checkpoint, reading, task_name
from ..loading.data_options import options_of_training
from ..loading.models import (
    build_generator,
    decode,
    generation_config,
    load_models,
    option_arguments,
    option_text,
    to_device,
)
from ..runtime.engine import Cancelled
from .bundle import Bundle
from .replacement import read_lexicon, with_words
from .text import TextPipeline
from .translation import DEFAULTS, LONGEST, Line, PreparedLine, Translation, join_pieces, require_lengths, require_pairs

# Decoders that are kept for calls with the same options.
DECODERS = 8


class Translator:
    """A loaded bundle. Safe to use from several threads: they take turns.

    Args:
        bundle: what to load.
        device: see :func:`.pretrained.from_pretrained`.
        decoding: likewise.
    """

    def __init__(self, bundle: Bundle, *, device: Optional[str] = None, **decoding: Any) -> None:
        self.bundle = bundle
        self.device = choose_device(device)
        self.pipeline = bundle.pipeline()
        self._lock = threading.Lock()
        self.defaults = {**DEFAULTS, **bundle.options, **{name: option_text(value) for name, value in decoding.items()}}
        self._tasks: OrderedDict[Tuple[Tuple[str, str], ...], Tuple[Any, Any, Any]] = OrderedDict()
        # Read once: for the options of the training here, for the model below.
        self._states = {str(bundle.paths[0]): read_checkpoint(bundle.paths[0])}
        self._trained_task = self._states[str(bundle.paths[0])]["cfg"].task
        self.models: List[Any] = []
        task, _, _ = self._decoder({}, given=decoding)
        self._states = {}
        self._longest = self._longest_piece(task)
        self.source, self.target = task.source_dictionary, task.target_dictionary

    def identity(self) -> Dict[str, Any]:
        """What its translations depend on beside bundle and options."""
        return {"engine": "torch", "device": self.device.type}

    # ------------------------------------------------------------------ translating

    def translate(
        self,
        lines: Union[str, Sequence[Line]],
        *,
        details: bool = False,
        batch_size: int = 32,
        progress: Optional[Callable[[int, int], None]] = None,
        cancelled: Optional[Callable[[], bool]] = None,
        **decoding: Any,
    ) -> Any:
        """Translates raw lines; the result has their order and number.

        A line without words becomes an empty one; a line of more than 256 subwords, or what the model takes, is translated in pieces.

        Args:
            lines: raw text, or what :meth:`prepare` made of it; a single string is one line.
            details: :class:`Translation` objects instead of strings.
            batch_size: sentences decoded together, grouped by length.
            progress: called with (sentences done, sentences).
            cancelled: whether nobody wants the translations any more; asked before each batch here, within batches by the runtime.
            decoding: options of ``fairseq-generate`` for this call.

        Raises:
            ValueError: an option that the task does not know or refuses.
            Cancelled: see ``cancelled``.
        """
        if batch_size < 1:
            raise ValueError(f"batch_size={batch_size}: at least one sentence has to be decoded at a time")
        single = isinstance(lines, str)
        rows = [lines] if isinstance(lines, str) else list(lines)
        with self._lock:
            task, generator, config = self._decoder(decoding)
            if config.generation.score_reference:
                raise ValueError(
                    "score_reference=true rates given translations: use score(), or fairseq-generate --score-reference"
                )
            lexicon = getattr(generator, "lexicon", None)
            pieces = [self._pieces(line, task) for line in rows]
            flat = [self._tensor(piece) for line in pieces for piece in line]
            found = self._decode(task, generator, flat, batch_size, progress, cancelled)
        results, place = [], 0
        for line, own in zip(rows, pieces):
            best = found[place : place + len(own)]
            if lexicon is not None:
                self._replace_unknown(own, best, lexicon)
            results.append(self._join(line, own, best, config.generation.nbest))
            place += len(own)
        chosen = results if details else [result.text for result in results]
        return chosen[0] if single else chosen

    def prepare(self, line: str) -> List[PreparedLine]:
        """A line in the pieces that are translated: what takes :meth:`translate` the time before it decodes.

        The translation of the line is that of its pieces, joined by :func:`.translation.join_pieces`. A line without words is one piece.
        Safe to use while another thread translates, which it does not wait for.
        """
        return PreparedLine.pieces(line, self.pipeline, self._longest)

    def _pieces(self, line: Line, task: Any) -> List[PreparedLine]:
        """The pieces of a line that have words."""
        return [piece for piece in PreparedLine.pieces(line, self.pipeline, self._longest_piece(task)) if piece.words]

    def _tensor(self, piece: PreparedLine) -> torch.Tensor:
        """Source ids, ``</s>`` at the end."""
        return self._symbols(piece.words, self.source)

    def _longest_piece(self, task: Any) -> int:
        return max(min(LONGEST, self._longest_source(task) - 1), 1)

    def _longest_source(self, task: Any) -> int:
        limits = [task.max_positions(), *(model.max_positions() for model in self.models)]
        return min(limit[0] if isinstance(limit, (tuple, list)) else limit for limit in limits)

    def _decode(
        self, task: Any, generator: Any, pieces: List[torch.Tensor], batch_size: int,
        progress: Optional[Callable], cancelled: Optional[Callable[[], bool]] = None,
    ) -> List[List[Dict[str, Any]]]:  # fmt: skip
        order = sorted(range(len(pieces)), key=lambda number: -len(pieces[number]))
        found: List[List[Dict[str, Any]]] = [[] for _ in pieces]
        for start in range(0, len(order), batch_size):
            _go_on(cancelled)
            members = order[start : start + batch_size]
            dataset = task.build_dataset_for_inference([pieces[n] for n in members], [len(pieces[n]) for n in members])
            sample = self._collate(dataset)
            for number, best in zip(sample["id"].tolist(), decode(task, generator, self.models, sample)):
                found[members[number]] = best
            if progress is not None:
                progress(min(start + batch_size, len(order)), len(order))
        return found

    def _collate(self, dataset: Any) -> Dict[str, Any]:
        """The batch of a whole data set, on the model's device."""
        return to_device(dataset.collater([dataset[number] for number in range(len(dataset))]), self.device)

    def _join(self, line: Line, pieces: List[PreparedLine], found: List[List[Dict[str, Any]]], nbest: int) -> Translation:
        """The translation of a line from those of its pieces."""
        hypotheses = [
            [self._translation(piece.text, hypothesis) for hypothesis in best[:nbest]] for piece, best in zip(pieces, found)
        ]
        return join_pieces(line, hypotheses)

    def _replace_unknown(
        self, pieces: List[PreparedLine], found: List[List[Dict[str, Any]]], lexicon: Mapping[str, str]
    ) -> None:
        """Gives each hypothesis of a line's pieces the ``words`` that it has in place of ``<unk>``."""
        for piece, hypotheses in zip(pieces, found):
            for hypothesis in hypotheses:
                tokens = [self.target[token] for token in hypothesis["tokens"].tolist()]
                hypothesis["words"] = with_words(
                    tokens, hypothesis["alignment"].tolist(), piece.words,
                    scheme=self.bundle.subwords, lexicon=lexicon, unknown=self.target.unk_word,
                )  # fmt: skip

    def _translation(self, line: str, hypothesis: Dict[str, Any]) -> Translation:
        tokens = [self.target[token] for token in hypothesis["tokens"].tolist()]
        words = " ".join(token for token in hypothesis.get("words", tokens) if token != self.target.eos_word)
        return Translation(
            text=self.pipeline.text(words),
            source=line,
            tokens=tokens,
            score=float(hypothesis["score"]),
            positional_scores=hypothesis["positional_scores"].tolist(),
            steps=int(hypothesis.get("steps", len(tokens))),
            token_steps=hypothesis["token_steps"].tolist() if "token_steps" in hypothesis else [],
        )

    def graphs(
        self,
        lines: Sequence[Line],
        *,
        batch_size: int = 32,
        cancelled: Optional[Callable[[], bool]] = None,
        **decoding: Any,
    ) -> List[List[Dict[str, Any]]]:
        """The graphs that a ``dag_transformer`` writes for raw lines: the documents of ``fairseq-hrt graph``.

        Args:
            lines: raw text, or what :meth:`prepare` made of it.
            batch_size, cancelled, decoding: see :meth:`translate`.

        Returns:
            For each line the graphs of its pieces: one, unless it is empty or was cut.

        Raises:
            ValueError: the model writes no graph, or see :meth:`translate`.
        """
        with self._lock:
            task, generator, _ = self._decoder(decoding)
            if not hasattr(generator, "graph_hooks"):
                raise ValueError(f"{self.bundle.folder} holds no model that writes graphs: give a dag_transformer")
            pieces = [self._pieces(line, task) for line in lines]
            flat = [self._tensor(piece) for line in pieces for piece in line]
            found: List[Dict[str, Any]] = []
            for start in range(0, len(flat), batch_size):
                _go_on(cancelled)
                members = flat[start : start + batch_size]
                dataset = task.build_dataset_for_inference(members, [len(piece) for piece in members])
                sample = self._collate(dataset)
                documents = generator.describe_graphs(self.models, sample)
                # A batch is ordered by length.
                found += [documents[place] for place in sample["id"].argsort().tolist()]
        documents_in_order = iter(found)
        return [[next(documents_in_order) for _ in line] for line in pieces]

    # ------------------------------------------------------------------ scoring

    def score(
        self, sources: Sequence[str], targets: Sequence[str], *, batch_size: int = 32, **decoding: Any
    ) -> List[Translation]:
        """Scores given translations as ``--score-reference`` does: the mean log-probability of their subwords and ``</s>``.

        For autoregressive and bidirectional models that is the score with which a greedy ``translate`` finds them; for
        ``hrt_transformer`` that of both stages with the chunk size of decoding (Eq. 2, over whole chunks); for ``dag_transformer``
        log P(y | x) over all paths.

        Args:
            sources, targets: raw lines, of the same number; a pair with an empty line has no score (None).

        Raises:
            ValueError: different numbers of lines, or a line that is longer than the model takes.
        """
        require_pairs(sources, targets, batch_size)
        with self._lock:
            task, generator, _ = self._decoder({**decoding, "score_reference": True})
            longest = self._longest_source(task), min(model.max_decoder_positions() for model in self.models)
            pairs = [(self._ids(s, self.source), self._ids(t, self.target, target=True)) for s, t in zip(sources, targets)]
            for number, pair in enumerate(pairs):
                require_lengths(number, [*map(len, pair)], longest)
            chosen = sorted((n for n, pair in enumerate(pairs) if min(map(len, pair)) > 1), key=lambda n: -len(pairs[n][0]))
            results = [Translation(text=target, source=source) for source, target in zip(sources, targets)]
            for start in range(0, len(chosen), batch_size):
                members = chosen[start : start + batch_size]
                columns = list(zip(*(pairs[n] for n in members)))
                dataset = LanguagePairDataset(
                    columns[0], np.array([len(row) for row in columns[0]]), self.source,
                    columns[1], np.array([len(row) for row in columns[1]]), self.target,
                    left_pad_source=task.cfg.left_pad_source, left_pad_target=False, shuffle=False,
                )  # fmt: skip
                sample = self._collate(dataset)
                for number, best in zip(sample["id"].tolist(), decode(task, generator, self.models, sample)):
                    scored = self._translation(sources[members[number]], best[0])
                    scored.text = targets[members[number]]
                    results[members[number]] = scored
        return results

    def _ids(self, line: str, dictionary: Any, *, target: bool = False) -> torch.Tensor:
        pipeline = self._target_pipeline if target else self.pipeline
        return self._symbols(pipeline.words(line), dictionary)

    @staticmethod
    def _symbols(words: Sequence[str], dictionary: Any) -> torch.Tensor:
        """Ids of words, ``</s>`` at the end."""
        unk = dictionary.unk()
        found = [dictionary.index(word) for word in words]
        # Special symbols in the text are words like any other, and unknown.
        return torch.tensor([*(unk if symbol < dictionary.nspecial else symbol for symbol in found), dictionary.eos()])

    @cached_property
    def _target_pipeline(self) -> TextPipeline:
        return self.bundle.target_pipeline()

    # ------------------------------------------------------------------ loading

    def _decoder(self, decoding: Dict[str, Any], given: Optional[Container[str]] = None) -> Tuple[Any, Any, Any]:
        """(task, generator, configuration) for some decoding options; those used last are kept.

        Args:
            given: names of the options that must have an effect; None: those of ``decoding``.
        """
        chosen = {**self.defaults, **{name: option_text(value) for name, value in decoding.items()}}
        key = tuple(sorted(chosen.items()))
        if key not in self._tasks:
            with splittable(self.bundle.folder) as folder:
                self._tasks[key] = self._build(chosen, folder, decoding if given is None else given)
            while len(self._tasks) > DECODERS:
                self._tasks.popitem(last=False)
        self._tasks.move_to_end(key)
        return self._tasks[key]

    def _build(self, chosen: Dict[str, str], folder: Path, given: Container[str]) -> Tuple[Any, Any, Any]:
        """(task, generator, configuration) for all the options of a decoder; the first one loads the models."""
        asked = chosen.pop("replace_unk", "false")
        # A switch alone copies source words; otherwise it names a lexicon.
        replacing = {"true": "", "false": None}.get(asked, asked)
        if replacing is not None and chosen["unkpen"] == "inf":
            chosen["unkpen"] = "0"
        config = self._configuration(chosen, folder)
        if config.generation.prefix_size:
            raise ValueError(
                f"prefix_size={config.generation.prefix_size}: no translation begins with given words here; use fairseq-generate"
            )
        # A dictionary is a file of unknown origin, too.
        with reading(self.bundle.folder, "has no usable dictionaries", keep=(OSError,)):
            task = tasks.setup_task(config.task)
        if not self.models:
            self.models = load_models(self.bundle.paths, config, task, self.device, states=self._states).models
        generator = build_generator(task, self.models, config, given)
        if replacing is not None:
            if not hasattr(generator, "align_words"):
                raise ValueError(f"--replace-unk: --task {config.task._name} cannot do it; use one of this package's")
            generator.align_words(read_lexicon(replacing))
        return task, generator, config

    def _configuration(self, chosen: Dict[str, str], folder: Path) -> Any:
        """fairseq's configuration, from its own parser, so that every option has its own checks and defaults.

        ``folder`` stands for the bundle's, see :func:`splittable`.
        """
        bundle = self.bundle
        paths = os.pathsep.join(str(folder / path.name) for path in bundle.paths)
        arguments = [
            str(folder), "--path", paths, "--task", chosen.get("task", bundle.task),
            "--source-lang", bundle.source_lang, "--target-lang", bundle.target_lang,
        ]  # fmt: skip
        arguments += option_arguments({name: value for name, value in chosen.items() if name != "task"})
        config = generation_config(arguments, f"decoding options {chosen}")
        _take_task_options(config.task, self._trained_task, arguments)
        return config


def _go_on(cancelled: Optional[Callable[[], bool]]) -> None:
    """Raises Cancelled where nobody waits any more."""
    if cancelled is not None and cancelled():
        raise Cancelled("the call was ended before it was done")


def choose_device(name: Optional[str]) -> torch.device:
    """The device of a name; None: a GPU where there is one.

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
                f"device {name!r}: PyTorch finds {count or 'no'} GPU{'s' * (count > 1)} here; give cpu or another one"
            )
    return device


@contextmanager
def splittable(folder: Path) -> Iterator[Path]:
    """A path of ``folder`` that fairseq, which takes paths apart at colons, takes for one: itself or a link for the time of the block.

    Raises:
        ValueError: the folder of temporary files has a colon in its name, too.
    """
    if os.pathsep not in str(folder):
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="fairseq_hrt_") as temporary:
        if os.pathsep in temporary:
            raise ValueError(
                f"{folder}: fairseq takes paths apart at {os.pathsep!r}, and so in TMPDIR {temporary}: give another TMPDIR"
            )
        link = Path(temporary) / "bundle"
        link.symlink_to(folder.resolve(), target_is_directory=True)
        yield link


def _take_task_options(config: Any, saved: Any, arguments: Iterable[str]) -> None:
    """Takes those options of the training's task that were not given now; ``fairseq-generate`` would take their defaults."""
    given = {argument[2:].partition("=")[0].replace("-", "_") for argument in arguments if argument.startswith("--")}
    if task_name(saved) != config._name:
        return
    for name, value in options_of_training(saved, config._name).items():
        if name in config and name not in given:
            config[name] = value
