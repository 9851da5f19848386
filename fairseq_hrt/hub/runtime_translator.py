"""A bundle's translator on the native runtime: neither PyTorch nor fairseq is loaded.

It has the methods, options and results of :class:`.translator.Translator`. What the runtime does not know is refused by name, or, where
the engine was left open (``engine="auto"``), done by that one.
"""

import logging
import os
import threading
from dataclasses import replace
from functools import cached_property
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from ..escaping import printable
from ..runtime.engine import DecodeOptions, Engine, Result, UnsupportedOption
from ..runtime.options import options_for
from .bundle import Bundle
from .dictionary import Words
from .graphs import describe_graph
from .replacement import read_lexicon, with_words
from .shortlist import read_shortlist
from .text import TextPipeline
from .translation import DEFAULTS, LONGEST, Translation, join_pieces, require_lengths, require_pairs

logger = logging.getLogger(__name__)

JACOBI = "translation_jacobi"
# Tasks that write what the runtime writes with a model of that family.
TASKS = {
    "autoregressive": ("translation_autoregressive", "translation", JACOBI),
    "hrt": ("translation_hrt",),
    "bidirectional": ("translation_bidirectional",),
    "dag": ("translation_dag",),
}
# Options of fairseq-generate that do not change what is decoded.
WITHOUT_EFFECT = (
    "cpu", "post_process", "remove_bpe", "quiet", "log_format", "log_interval", "num_workers", "max_tokens", "print_step", "seed",
    "required_batch_size_multiple", "skip_invalid_size_inputs_valid_test", "batch_size", "left_pad_source", "retain_iter_history",
    "jacobi_cost_file",
)  # fmt: skip


def options_of_task(task: str, options: Mapping[str, str]) -> Dict[str, str]:
    """Options as the runtime takes them, which knows models but no tasks: that of Jacobi decoding is a mode there.

    Raises:
        ValueError: an option of that task with another one.
    """
    if task == JACOBI:
        return {"jacobi_mode": "frontier", **options}
    for name, value in options.items():
        if name.startswith("jacobi_"):
            raise ValueError(
                f"--{name.replace('_', '-')} {value} belongs to --task {JACOBI}, not {task}: give that task, or leave the option away"
            )
    return dict(options)


def require_one_dictionary(options: DecodeOptions, source: Sequence[str], target: Sequence[str]) -> None:
    """Refuses to copy words of the source where their ids are other words of the target.

    Raises:
        ValueError: what to do.
    """
    if options.jacobi_draft == "source" and source != target:
        raise ValueError(
            "--jacobi-draft source copies words of the source: it needs one dictionary for both sides "
            "(fairseq-preprocess --joined-dictionary)"
        )


def default_threads() -> int:
    """The cores that this process may use, at most as many as OMP_NUM_THREADS says."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    given = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
    return min(cores, int(given)) if given.isdecimal() and int(given) else cores


class RuntimeTranslator:
    """A loaded bundle on the runtime. Safe to use from several threads: they take turns.

    Args:
        bundle: made with ``fairseq-hrt bundle --runtime``.
        threads: sentences are decoded on that many; None: :func:`default_threads`.
        use_shortlist: whether each sentence chooses among the words of the bundle's shortlist only.
        fallback: makes the translator that takes over for what the runtime does not know; None: that is refused.
        decoding: options of ``fairseq-generate`` by their names; they go before those of the bundle.

    Raises:
        ValueError: the bundle has no model for the runtime, it is damaged, or an option is bad.
        UnsupportedOption: an option that the runtime does not know.
    """

    def __init__(
        self, bundle: Bundle, *, threads: Optional[int] = None, use_shortlist: bool = False,
        fallback: Optional[Callable[[], Any]] = None, **decoding: Any,
    ) -> None:  # fmt: skip
        if bundle.runtime is None:
            raise ValueError(
                f"{bundle.folder} holds no model for the runtime: make it with fairseq-hrt bundle ... --runtime int8, or use --engine torch"
            )
        self.bundle, self.use_shortlist = bundle, use_shortlist
        self.defaults = {**DEFAULTS, **bundle.options, **_texts(decoding)}
        self.source, self.target = (
            Words(bundle.folder / f"dict.{language}.txt") for language in (bundle.source_lang, bundle.target_lang)
        )
        self.engine = Engine.open(bundle.folder / bundle.runtime, threads=default_threads() if threads is None else threads)
        header = self.engine.header
        if (header.source_vocabulary, header.target_vocabulary) != (len(self.source), len(self.target)):
            raise ValueError(
                f"{bundle.folder / bundle.runtime} was made for dictionaries of {header.source_vocabulary} and {header.target_vocabulary} "
                f"words, the bundle has {len(self.source)} and {len(self.target)}: pack it again"
            )
        if use_shortlist:
            if bundle.shortlist is None:
                raise ValueError(f"{bundle.folder} holds no shortlist: make it with fairseq-hrt bundle ... --shortlist FILE")
            self.engine.set_shortlist(read_shortlist(bundle.folder / bundle.shortlist))
        self.pipeline = bundle.pipeline()
        self._options: Dict[Tuple[Any, ...], DecodeOptions] = {}
        self._fallback, self._other = fallback, None
        self._lock = threading.Lock()
        self.decode_options({})

    def translate(
        self,
        lines: Any,
        *,
        details: bool = False,
        batch_size: int = 32,
        progress: Optional[Callable[[int, int], None]] = None,
        cancelled: Optional[Callable[[], bool]] = None,
        **decoding: Any,
    ) -> Any:
        """Translates raw lines; see :meth:`.translator.Translator.translate`."""
        if batch_size < 1:
            raise ValueError(f"batch_size={batch_size}: at least one sentence has to be decoded at a time")
        try:
            options = self.decode_options(decoding, scores=details, batch_size=batch_size)
        except UnsupportedOption as error:
            if self._fallback is None:
                raise
            other = self.fallback_translator(str(error))
            return other.translate(
                lines, details=details, batch_size=batch_size, progress=progress, cancelled=cancelled, **decoding
            )
        single = isinstance(lines, str)
        rows = [lines] if single else list(lines)
        pieces = [self._pieces(line) for line in rows]
        lexicon = self._lexicon(decoding)
        found = self._decode([piece for line in pieces for piece in line], options, progress, cancelled)
        results, place = [], 0
        for line, own in zip(rows, pieces):
            best = found[place : place + len(own)]
            place += len(own)
            words = None if lexicon is None else self._replaced(line, own, best, lexicon)
            results.append(self._join(line, own, best, words) if details else self._text(best, words))
        return results[0] if single else results

    def graphs(
        self, lines: Sequence[str], *, batch_size: int = 32, cancelled: Optional[Callable[[], bool]] = None, **decoding: Any
    ) -> List[List[Dict[str, Any]]]:
        """The graphs that a ``dag_transformer`` writes for raw lines; see :meth:`.translator.Translator.graphs`."""
        try:
            options = replace(self.decode_options(decoding, batch_size=batch_size), graphs=True)
        except UnsupportedOption as error:
            if self._fallback is None:
                raise
            other = self.fallback_translator(str(error))
            return other.graphs(lines, batch_size=batch_size, cancelled=cancelled, **decoding)
        pieces = [self._pieces(line) for line in lines]
        found = iter(self._decode([piece for line in pieces for piece in line], options, None, cancelled))
        return [[describe_graph(next(found)[0], self.target.words) for _ in line] for line in pieces]

    def identity(self) -> Dict[str, Any]:
        """What its translations depend on beside bundle and options; see :meth:`.translator.Translator.identity`."""
        return {"engine": "runtime", "shortlist": self.use_shortlist}

    def score(
        self, sources: Sequence[str], targets: Sequence[str], *, batch_size: int = 32, **decoding: Any
    ) -> List[Translation]:
        """Scores given translations; see :meth:`.translator.Translator.score`. A shortlist does not matter.

        Models that write several words at once are left to PyTorch.
        """
        try:
            if self.engine.header.family != "autoregressive":
                raise UnsupportedOption(
                    f"the runtime scores given translations by autoregressive models, this one is of the family {self.engine.header.family}: "
                    "use --engine torch"
                )
            # How many translations a search keeps does not matter, and would where the task has a greedy one only.
            self.decode_options({name: value for name, value in decoding.items() if name not in ("beam", "nbest")})
        except UnsupportedOption as error:
            if self._fallback is None:
                raise
            return self.fallback_translator(str(error)).score(sources, targets, batch_size=batch_size, **decoding)
        require_pairs(sources, targets, batch_size)
        header, results = self.engine.header, []
        rows: List[Tuple[Translation, List[int], List[int]]] = []
        for number, (source, target) in enumerate(zip(sources, targets)):
            pair = self.source.ids(self.pipeline.words(source)), self.target.ids(self._target_pipeline.words(target))
            results.append(Translation(text=target, source=source))
            require_lengths(number, [len(ids) + 1 for ids in pair], (header.longest_source, header.longest_target))
            if all(pair):
                rows.append((results[-1], [*pair[0], header.eos], [*pair[1], header.eos]))
        found = self.engine.score([row for _, row, _ in rows], [[target] for *_, target in rows], batch_size=batch_size)
        for (one, *_), (scored,) in zip(rows, found):
            one.tokens, one.score = self._words(scored), scored.score
            # Who wrote them when is not known.
            one.positional_scores, one.steps = scored.positional_scores, len(scored.tokens)
        return results

    @cached_property
    def _target_pipeline(self) -> TextPipeline:
        return self.bundle.target_pipeline()

    def fallback_translator(self, reason: str) -> Any:
        """The translator that takes over, loaded when it is first needed."""
        with self._lock:
            if self._other is None:
                assert self._fallback is not None
                logger.warning("%s (PyTorch takes over)", printable(reason))
                self._other = self._fallback()
        return self._other

    def decode_options(self, decoding: Mapping[str, Any], *, scores: bool = True, batch_size: int = 32) -> DecodeOptions:
        """What the engine is asked for; kept for the next call with the same options.

        Raises:
            UnsupportedOption, ValueError: by name.
        """
        key = (scores, batch_size, *decoding.items())
        found = self._options.get(key) if _hashable(key) else None
        if found is None:
            # A switch that is set to false was not given at all, as on the command line: then the training's choice holds.
            given = {name: value for name, value in {**self.defaults, **_texts(decoding)}.items() if value != "false"}
            family = self.engine.header.family
            task = given.pop("task", self.bundle.task)
            if task not in TASKS[family]:
                raise UnsupportedOption(
                    f"--task {task}: the runtime decodes a model of the family {family} as {TASKS[family][0]}; use --engine torch"
                )
            # What the training left holds for its own task.
            chosen = {**self.bundle.runtime_options, **given} if task == self.bundle.task else given
            chosen = {name: value for name, value in options_of_task(task, chosen).items() if name not in WITHOUT_EFFECT}
            replacing = chosen.pop("replace_unk", None) is not None
            if replacing and chosen.get("unkpen") == "inf":
                chosen["unkpen"] = "0"
            if replacing:
                chosen["alignments"] = "true"
            found = DecodeOptions.parse(chosen, scores=scores, batch_size=batch_size)
            # Refused now and not at the first line.
            options_for(self.engine.header, found)
            require_one_dictionary(found, self.source.words, self.target.words)
            if _hashable(key) and len(self._options) < 64:
                self._options[key] = found
        return found

    def _lexicon(self, decoding: Mapping[str, Any]) -> Optional[Mapping[str, str]]:
        """What is written for words of the source where the model does not know one; None: ``<unk>`` is not replaced.

        Raises:
            ValueError: the lexicon cannot be read.
        """
        asked = {**self.bundle.runtime_options, **self.defaults, **_texts(decoding)}.get("replace_unk", "false")
        # A switch alone copies source words; otherwise it names a lexicon.
        return None if asked == "false" else read_lexicon({"true": ""}.get(asked, asked))

    def _replaced(
        self, line: str, pieces: List[List[int]], found: Sequence[Sequence[Result]], lexicon: Mapping[str, str]
    ) -> List[List[List[str]]]:
        """The words of each hypothesis of a line's pieces, those of the source or of the lexicon in place of ``<unk>``."""
        subwords, written = self.pipeline.words(line), []
        unknown = self.target.words[self.engine.header.unk]
        for piece, hypotheses in zip(pieces, found):
            own, subwords = subwords[: len(piece) - 1], subwords[len(piece) - 1 :]
            written.append([
                with_words(self._words(one), one.alignment, own, scheme=self.bundle.subwords, lexicon=lexicon, unknown=unknown)
                for one in hypotheses
            ])  # fmt: skip
        return written

    def _pieces(self, line: str) -> List[List[int]]:
        """Source ids of a line, ``</s>`` at the end of each piece."""
        header = self.engine.header
        limit = max(min(LONGEST, header.longest_source - 1), 1)
        ids = self.source.ids(self.pipeline.words(line))
        return [[*ids[start : start + limit], header.eos] for start in range(0, len(ids), limit)]

    def _decode(
        self,
        pieces: List[List[int]],
        options: DecodeOptions,
        progress: Optional[Callable[[int, int], None]],
        cancelled: Optional[Callable[[], bool]],
    ) -> List[List[Result]]:
        if progress is None:
            return self.engine.decode(pieces, options, cancelled=cancelled) if pieces else []
        found: List[List[Result]] = [[] for _ in pieces]
        order = sorted(range(len(pieces)), key=lambda number: -len(pieces[number]))
        size = options.batch_size * self.engine.threads
        for start in range(0, len(order), size):
            members = order[start : start + size]
            chosen = [pieces[number] for number in members]
            for number, best in zip(members, self.engine.decode(chosen, options, cancelled=cancelled)):
                found[number] = best
            progress(min(start + size, len(order)), len(order))
        return found

    def _text(self, pieces: Sequence[Sequence[Result]], words: Optional[List[List[List[str]]]]) -> str:
        written = [self._words(best[0]) for best in pieces] if words is None else [own[0] for own in words]
        texts = [self.pipeline.text(self._sentence(tokens)) for tokens in written]
        return texts[0] if len(texts) == 1 else " ".join(text for text in texts if text)

    @staticmethod
    def _sentence(tokens: List[str]) -> str:
        return " ".join(token for token in tokens if token != "</s>")

    def _words(self, result: Result) -> List[str]:
        words = self.target.words
        return [words[token] for token in result.tokens]

    def _join(
        self, line: str, pieces: List[List[int]], found: Sequence[Sequence[Result]], words: Optional[List[List[List[str]]]]
    ) -> Translation:
        translations, offset = [], 0
        for piece, (ids, best) in enumerate(zip(pieces, found)):
            written = [None] * len(best) if words is None else words[piece]
            translations.append([self._translation(line, result, own, offset) for result, own in zip(best, written)])
            offset += len(ids) - 1
        return join_pieces(line, translations)

    def _translation(self, line: str, result: Result, words: Optional[List[str]], offset: int) -> Translation:
        tokens = self._words(result)
        return Translation(
            text=self.pipeline.text(self._sentence(tokens if words is None else words)),
            source=line,
            tokens=tokens,
            score=result.score,
            positional_scores=list(result.positional_scores),
            steps=result.steps,
            token_steps=list(result.token_steps),
            alignment=[place + offset for place in result.alignment],
        )


def _texts(options: Mapping[str, Any]) -> Dict[str, str]:
    """Values as on the command line: ``"true"`` stands for a switch."""
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in options.items()}


def _hashable(key: Tuple[Any, ...]) -> bool:
    try:
        hash(key)
    except TypeError:
        return False
    return True
