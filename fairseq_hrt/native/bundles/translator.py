"""The Python interface: raw text in, raw text out, with either engine.

model = fairseq_hrt.from_pretrained("bundle")
model.translate(["Good morning."])                                # ["Guten Morgen."]
model.translate(["Good morning."], details=True, beam=5)[0].score
model.score(["Good morning."], ["Guten Morgen."])
"""

import logging
import threading
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import Any, Callable, Dict, FrozenSet, List, Mapping, Optional, Sequence, Tuple, Union

from ..decoding import Hypothesis
from ..io.escaping import printable
from ..io.forks import renew_in_forks
from ..options.conditions import option_text
from ..options.effects import require_scoring
from ..options.misplaced import require_decoding
from ..options.values import UnsupportedOption
from ..text.glossary import GivenGlossary, Glossary
from ..text.replacement import mostly_unknown, read_lexicon, unknown_words
from ..text.unknown_symbols import UnknownSymbols, with_symbols
from .asynchronous import AsyncTranslation
from .bundle import Bundle
from .decoder import OF_LOADING, Decoder, Wanted, Watch
from .hypothesis_texts import HypothesisTexts
from .source_texts import SourceTexts
from .translation import (
    DEFAULTS,
    LONGEST,
    Line,
    PreparedLine,
    Translation,
    checked_batch_size,
    join_pieces,
    joined_texts,
    raw_text,
    require_lengths,
    require_lines,
    require_pairs,
)

logger = logging.getLogger(__name__)


class Translator:
    """A loaded bundle. Safe to use from several threads.

    Args:
        bundle: the bundle.
        decoder: the bundle's model on an engine.
        fallback: makes the decoder that takes over for options that ``decoder`` does not support;
            None: such options are refused.
        glossary: the glossary of calls that give none themselves; see :meth:`translate`.
        decoding: options of ``fairseq-generate`` by their names; they override the bundle's.

    Attributes:
        defaults: the decoding options of a call that gives none.
        glossary: the glossary of a call that gives none, or None.
        terms_found: how many terms of glossaries were found in all calls so far.
        source, target: the dictionaries.

    Raises:
        ValueError: an option is unknown, or its value is invalid.
        UnsupportedOption: the engine does not support an option.
    """

    def __init__(
        self,
        bundle: Bundle,
        decoder: Decoder,
        *,
        fallback: Optional[Callable[[], Decoder]] = None,
        glossary: GivenGlossary = None,
        **decoding: Any,
    ) -> None:
        require_decoding(decoding)
        self.bundle, self.decoder = bundle, decoder
        self.glossary, self.terms_found = Glossary.of(glossary), 0
        self.pipeline = bundle.pipeline()
        self.defaults = {**DEFAULTS, **bundle.options}
        self.defaults.update((name, option_text(value)) for name, value in decoding.items())
        # Switches that stay off whatever the training stored.
        self._off = frozenset(name for name in decoding if self.defaults[name] == "false")
        self.source, self.target = bundle.dictionaries()
        self._sources = SourceTexts(self.pipeline, self.source, bundle.source_lang)
        self._texts = HypothesisTexts(self.pipeline, self.target, bundle.subwords)
        self._fallback, self._last = fallback, decoder
        self._other: Optional[Decoder] = None
        self._unlock()
        renew_in_forks(self, Translator._unlock)
        options, lexicon = self._chosen({})
        wanted = Wanted(32, alignments=lexicon is not None)
        # By ``decoder`` itself: a fallback for these options would take over in every call.
        prepared = decoder.prepare(options, wanted, frozenset(decoding))
        self._longest = _longest_piece(decoder, prepared)

    def _unlock(self) -> None:
        # Held while the fallback is made.
        self._lock = threading.Lock()

    def identity(self) -> Dict[str, Any]:
        """What translations depend on besides bundle and options, e.g. ``{"engine": "native"}``. A
        resumed run compares it with that of the run that it continues; see
        :meth:`.decoder.Decoder.identity`."""
        return self.decoder.identity()

    def describe(self) -> str:
        """The engine that was used last and the type of its weights, in a few words for the
        user."""
        return self._last.describe()

    # ------------------------------------------------------------------ translating

    def translate(
        self,
        lines: Union[str, Sequence[Line]],
        *,
        details: bool = False,
        batch_size: int = 32,
        progress: Optional[Callable[[int, int], None]] = None,
        cancelled: Optional[Callable[[], bool]] = None,
        given: Optional[FrozenSet[str]] = None,
        glossary: GivenGlossary = None,
        **decoding: Any,
    ) -> Any:
        """Translates raw lines; returns a list of as many translations, in the same order, or the
        only translation if ``lines`` is a single string.

        A line without words gives an empty translation. A line of more than 256 subwords, or more
        than the model takes, is translated in pieces. Symbols that the model lacks are carried
        over, see :mod:`~..text.unknown_symbols`.

        Args:
            lines: raw text, or the :class:`PreparedLine` objects that :meth:`prepare` made of it; a
                single string is one line.
            details: return :class:`Translation` objects instead of strings.
            batch_size: sentences decoded together, grouped by length.
            progress: called after each batch with (number of sentences done, number of all).
            cancelled: returns True to end the call; see :class:`~.decoder.Watch`.
            given: names of the options in ``decoding`` that are refused if they have no effect;
                other options without effect, such as the bundle's, get their defaults. None: all
                in ``decoding``.
            glossary: given translations of terms: a :class:`~..text.glossary.Glossary`,
                {term: translation}, or the path of a file; None: the translator's own.
            decoding: options of ``fairseq-generate`` for this call.

        Raises:
            ValueError: the task does not have an option, or refuses its value.
            TypeError: a line is neither a str nor a :class:`PreparedLine`.
            Cancelled: ``cancelled`` returned True.
        """
        single = isinstance(lines, str)
        rows: List[Line] = [lines] if isinstance(lines, str) else list(lines)
        require_lines(rows)
        given = (frozenset(decoding) if given is None else given) | self._off
        options, lexicon = self._chosen(decoding)
        wanted = Wanted(
            checked_batch_size(batch_size), scores=details, alignments=lexicon is not None
        )
        aligned = wanted.alignments or any(
            options.get(name, "false") != "false" for name in ("alignments", "print_alignment")
        )
        decoder, prepared = self._prepared(options, wanted, given)
        pieces = self._sources.cut(rows, _longest_piece(decoder, prepared))
        terms = self._texts.terms(
            [piece for own in pieces for piece in own],
            Glossary.of(glossary) or self.glossary,
            lambda texts: self._alone(texts, batch_size, cancelled),
        )
        self.terms_found += sum(len(own.found) for own in terms)
        if not aligned and (
            any(own.found for own in terms) or any(piece.symbols for own in pieces for piece in own)
        ):
            # A model that aligns no words refuses; its symbols are placed without alignments.
            with suppress(ValueError):
                decoder, prepared = self._prepared(options, wanted._replace(alignments=True), given)
        found = decoder.decode(
            prepared, self._sources.ids(pieces), wanted, Watch(progress, cancelled)
        )
        results: List[Any] = []
        place = 0
        for line, own in zip(rows, pieces):
            best, line_terms = found[place : place + len(own)], terms[place : place + len(own)]
            place += len(own)
            if not own:
                # Nothing but symbols, or nothing at all.
                text = with_symbols("", (), (), self.in_words(line).symbols, ())
                results.append(Translation(text, raw_text(line)) if details else text)
                continue
            if not details:
                texts = [
                    self._texts.text(hypotheses[0], piece, lexicon, own_terms)[0]
                    for piece, hypotheses, own_terms in zip(own, best, line_terms)
                ]
                results.append(texts[0] if len(texts) == 1 else joined_texts(texts))
                continue
            parts = [
                self._texts.translation(hypotheses, piece, lexicon, own_terms, aligned)
                for piece, hypotheses, own_terms in zip(own, best, line_terms)
            ]
            results.append(join_pieces(raw_text(line), parts))
        return results[0] if single else results

    def _alone(
        self, texts: Sequence[str], size: int, cancelled: Optional[Callable[[], bool]]
    ) -> List[Optional[Tuple[PreparedLine, Hypothesis]]]:
        """Translates each of ``texts``, terms of glossaries, as a line of its own, in batches of
        ``size``. Returns for each (its first piece, that piece's best translation), None for a text
        without words. The decoding options are the translator's own, not those of a call, and
        without scores: this takes little time, and the translations can be kept for all calls."""
        cut = [own[:1] for own in self._sources.cut(texts, self._longest)]
        wanted, options = Wanted(size, scores=False), {**self._chosen({})[0], "nbest": "1"}
        best = iter(
            self.decoder.decode(
                self.decoder.prepare(options, wanted, frozenset()),
                self._sources.ids(cut),
                wanted,
                Watch(cancelled=cancelled),
            )
        )
        return [(own[0], next(best)[0]) if own else None for own in cut]

    def new_terms(self, lines: Sequence[str], glossary: Glossary) -> List[str]:
        """The terms of a glossary that occur in raw lines and that :meth:`translate` would first
        have to translate as lines of their own: sorted, each once. :meth:`prepare_terms` translates
        them in advance."""
        return self._texts.new([PreparedLine(line, ()) for line in lines], glossary)

    def prepare_terms(
        self,
        terms: Sequence[str],
        *,
        batch_size: int = 32,
        cancelled: Optional[Callable[[], bool]] = None,
    ) -> None:
        """Translates ``terms``, such as the result of :meth:`new_terms`, each as a line of its own,
        and keeps their translations for later calls of :meth:`translate`, which would otherwise
        make them. For ``batch_size``, ``cancelled`` and its error see :meth:`translate`."""
        self._texts.alone(terms, lambda new: self._alone(new, batch_size, cancelled))

    async def translate_async(
        self,
        lines: Union[str, Sequence[str]],
        *,
        details: bool = False,
        glossary: GivenGlossary = None,
        **decoding: Any,
    ) -> Any:
        """Translates as :meth:`translate` does, for asyncio: a thread decodes the lines while the
        event loop runs, together with the lines of other calls that have the same options.

        A call that is cancelled, also by :func:`asyncio.wait_for`, takes its lines out of the
        queue.

        Args:
            lines: raw text; a single string is one line.
            details, glossary, decoding: see :meth:`translate`. Calls that differ in one of these
                are not decoded together.

        Raises:
            ValueError: the task does not have an option, or refuses its value.
            TypeError: a line is not a str, or an argument is one of :meth:`translate` alone.
            QueueFull: more than 4,096 lines would wait.
        """
        return await self._asynchronous.translate(
            lines, details=details, glossary=Glossary.of(glossary), **decoding
        )

    @cached_property
    def _asynchronous(self) -> AsyncTranslation:
        return AsyncTranslation(self)

    def prepare(self, line: str) -> List[PreparedLine]:
        """Splits a line into subwords and into the pieces that are translated. This is the slow
        part of :meth:`translate` before decoding.

        The line's translation is that of its pieces, joined by :func:`.translation.join_pieces`. A
        line without words is one piece. Never waits for a translation in another thread.
        """
        return self._sources.pieces(line, self._longest)

    def graphs(
        self,
        lines: Union[str, Sequence[Line]],
        *,
        batch_size: int = 32,
        cancelled: Optional[Callable[[], bool]] = None,
        given: Optional[FrozenSet[str]] = None,
        **decoding: Any,
    ) -> Any:
        """The graphs that a ``dag_transformer`` writes for raw lines, as dictionaries; see
        :func:`..decoding.graphs.describe_graph`.

        Args:
            lines: raw text, or the :class:`PreparedLine` objects that :meth:`prepare` made of it; a
                single string is one line.
            batch_size, cancelled, given, decoding: as for :meth:`translate`.

        Returns:
            For each line, or for the only one, the list of the graphs of its pieces: one, unless
            the line is empty or was split.

        Raises:
            ValueError: the model writes no graphs, or an option is invalid.
            TypeError: a line is neither a str nor a :class:`PreparedLine`.
        """
        rows: List[Line] = [lines] if isinstance(lines, str) else list(lines)
        require_lines(rows)
        wanted = Wanted(checked_batch_size(batch_size), graphs=True)
        given = (frozenset(decoding) if given is None else given) | self._off
        decoder, prepared = self._prepared(self._chosen(decoding)[0], wanted, given)
        pieces = self._sources.cut(rows, _longest_piece(decoder, prepared))
        flat = self._sources.ids(pieces)
        documents = iter(decoder.graphs(prepared, flat, wanted, Watch(cancelled=cancelled)))
        found = [[next(documents) for _ in own] for own in pieces]
        return found[0] if isinstance(lines, str) else found

    def score(
        self,
        sources: Sequence[str],
        targets: Sequence[str],
        *,
        batch_size: int = 32,
        **decoding: Any,
    ) -> List[Translation]:
        """Scores given translations as ``--score-reference`` does: the mean log-probability of
        their subwords and ``</s>``.

        Autoregressive and bidirectional models give the score that a greedy ``translate`` reports,
        with words of ``forced_start`` counted as certain; ``hrt_transformer`` gives Eq. 2 of its
        paper (both stages, with decoding's chunk size) / length rounded up to whole chunks;
        ``dag_transformer`` and ``ctc_transformer`` give log P(y | x), summed over all paths or
        outputs, per subword. All but autoregressive models are scored by PyTorch.

        Args:
            sources, targets: equally many raw lines; a pair with an empty line has no score (None).
            batch_size: pairs scored together.
            decoding: options for this call that change scores, such as ``hrt_decode_chunk``.

        Raises:
            ValueError: the numbers of lines differ, a line is longer than the model takes, or an
                option changes no score.
        """
        require_pairs(sources, targets, batch_size)
        require_scoring(decoding)
        wanted = Wanted(batch_size, given=True)
        options = self._chosen(decoding)[0]
        decoder, prepared = self._prepared(options, wanted, frozenset(decoding))
        longest = decoder.longest(prepared)
        forced = self.target.ids(options.get("forced_start", "").split())
        results = [
            Translation(text=target, source=source) for source, target in zip(sources, targets)
        ]
        eos, chosen, pairs = self.source.eos, [], []
        for number, (source, target) in enumerate(zip(sources, targets)):
            pair = (
                self.source.ids(self.in_words(source).words),
                self.target.ids(self._unknown_target.words(target)[0]),
            )
            require_lengths(number, [len(ids) + 1 for ids in pair], longest)
            if all(pair):
                chosen.append(results[number])
                pairs.append(([*pair[0], eos], [*pair[1], eos]))
        found = decoder.score(
            prepared, [own for own, _ in pairs], [own for _, own in pairs], wanted
        )
        for one, scored in zip(chosen, found):
            if forced and scored.tokens[: len(forced)] == forced:
                scored = _certain(scored, len(forced))
            one.tokens, one.score = self._texts.symbols(scored), scored.score
            one.positional_scores = list(scored.positional_scores)
            one.steps, one.token_steps = scored.steps or len(one.tokens), list(scored.token_steps)
        return results

    @cached_property
    def _unknown_target(self) -> UnknownSymbols:
        return UnknownSymbols(self.bundle.target_pipeline(), self.target)

    # ------------------------------------------------------------------ options

    def _chosen(
        self, decoding: Mapping[str, Any]
    ) -> Tuple[Dict[str, str], Optional[Mapping[str, str]]]:
        """Returns (options, lexicon) for a call.

        ``options``: {name: value as a text}, those in ``decoding`` and the defaults of all others
        but ``replace_unk``. ``lexicon``: {source word: translation}, read from the file that
        ``replace_unk`` names; empty for ``replace_unk=True``, which copies source words; None
        without this option.

        Raises:
            ValueError: the lexicon cannot be read, or a name is not an option of decoding.
        """
        require_decoding(decoding)
        chosen = dict(self.defaults)
        chosen.update((name, option_text(value)) for name, value in decoding.items())
        asked = chosen.pop("replace_unk", "false")
        if asked == "false":
            return chosen, None
        if chosen["unkpen"] == "inf":
            if "unkpen" in decoding:
                raise ValueError(
                    "replace_unk with unkpen=inf: no <unk> is written that could be replaced; leave"
                    " one of the two out"
                )
            chosen["unkpen"] = "0"
        return chosen, read_lexicon({"true": ""}.get(asked, asked))

    def _prepared(
        self, options: Mapping[str, str], wanted: Wanted, given: FrozenSet[str]
    ) -> Tuple[Decoder, Any]:
        """Returns (the decoder that supports the options of a call, the result of its ``prepare``).
        Logs a warning when the fallback takes over for the first time; ValueError for an option
        that can only be chosen when a model is loaded."""
        for name in OF_LOADING:
            if options.get(name, "false") != self.defaults.get(name, "false"):
                raise ValueError(
                    f"{name}={options[name]}: it takes effect when a model is loaded; give it to"
                    " from_pretrained"
                )
        decoder = self.decoder
        try:
            prepared = decoder.prepare(options, wanted, given)
        except UnsupportedOption as error:
            if self._fallback is None:
                raise
            with self._lock:
                if self._other is None:
                    logger.warning("%s (PyTorch takes over)", printable(str(error)))
                    self._other = self._fallback()
            decoder = self._other
            prepared = decoder.prepare(options, wanted, given)
        self._last = decoder
        return decoder, prepared

    # ------------------------------------------------------------------ text

    def pieces(self, lines: Sequence[str]) -> List[List[int]]:
        """The source ids that are decoded, with ``</s>``: a list for each piece of each line, in
        a flat list without division into lines."""
        return self._sources.ids(self._sources.cut(lines, self._longest))

    def in_words(self, line: Line) -> PreparedLine:
        """Splits a line into subwords but not into pieces; :meth:`translate` takes the result."""
        return self._sources.in_words(line)

    def in_sentences(self, line: str) -> List[PreparedLine]:
        """The sentences of a raw line, see :meth:`.source_texts.SourceTexts.in_sentences`."""
        return self._sources.in_sentences(line)

    def mostly_unknown(self, line: Line) -> List[str]:
        """The words of a line that the model's dictionary lacks, if they are more than half of all
        words; else an empty list."""
        words = self.in_words(line).words[self.pipeline.prefix_length :]
        return mostly_unknown(words, self.source, self.bundle.subwords)

    def unknown_words(self, line: str) -> List[str]:
        """Lists the words and punctuation marks of a line that contain a subword missing from the
        model's dictionary. They may be lost in the translation. Symbols that are carried over from
        the source are not listed."""
        return unknown_words(self.in_words(line).words, self.source, self.bundle.subwords)


def _certain(scored: Hypothesis, first: int) -> Hypothesis:
    """A copy of a hypothesis in which its first ``first`` tokens have the log-probability 0."""
    parts = [0.0] * first + scored.positional_scores[first:]
    return replace(scored, positional_scores=parts, score=sum(parts) / len(parts))


def _longest_piece(decoder: Decoder, prepared: Any) -> int:
    """The most subwords, without ``</s>``, of a part of a line that is translated on its own:
    LONGEST, or less if the model takes less. ``prepared``: from the decoder's ``prepare()``."""
    return max(min(LONGEST, decoder.longest(prepared)[0] - 1), 1)
