"""The lines that translators take and the translations that they return, with either engine."""

from dataclasses import dataclass, field
from heapq import nsmallest
from operator import itemgetter
from typing import Any, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple, Union

from ..text.given_terms import GivenTerm
from ..text.pipeline import TextPipeline
from ..text.unknown_symbols import Symbol
from ..text.word_alignment import locate

# Most source subwords that are translated in one piece; longer lines are split. Training corpora
# have no longer sentences.
LONGEST = 256
# Default decoding options, which the bundle's override. Nobody wants to read a literal <unk>;
# unkpen=0 lets the model write it.
DEFAULTS = {"unkpen": "inf"}


@dataclass(frozen=True)
class PreparedLine:
    """A raw line, or a piece of one, with its subwords; translators accept it in place of a text.

    Attributes:
        text: the whole raw line.
        words: the subwords of the line, or of the piece.
        start: how many subwords of the line precede ``words``.
        symbols: symbols of the line that the model lacks, such as emoji. They are not among the
            subwords, but are put into the translation.
        span: (start, end) of the piece's characters in the line; None: the whole line.
    """

    text: str
    words: Sequence[str]
    start: int = 0
    symbols: Sequence[Symbol] = ()
    span: Optional[Tuple[int, int]] = None

    def __len__(self) -> int:
        return len(self.words)

    @property
    def own_text(self) -> str:
        """The raw text of the piece, a part of the line's."""
        return self.text if self.span is None else self.text[slice(*self.span)]

    @classmethod
    def pieces(cls, line: "Line", pipeline: TextPipeline, longest: int) -> "List[PreparedLine]":
        """Splits a line into pieces of at most ``longest`` subwords; a line without words is one
        piece. ``pipeline`` splits a raw line into subwords first.

        Each piece begins with the language token, if the model needs one before a source.
        """
        whole = cls(line, pipeline.words(line)) if isinstance(line, str) else line
        if len(whole) <= longest:
            return [whole]
        first = pipeline.prefix_length
        prefix, step = whole.words[:first], max(longest - first, 1)
        begin, end = whole.span or (0, len(whole.text))
        places = [begin + start for start, _ in locate(whole.own_text, whole.words)]
        return [
            cls(
                whole.text,
                [*prefix, *whole.words[place : place + step]],
                whole.start + place - first,
                [
                    symbol._replace(place=symbol.place - place + first)
                    for symbol in whole.symbols
                    # A symbol behind the last subword belongs to the last piece.
                    if place <= min(symbol.place, len(whole) - 1) < place + step
                ],
                (
                    places[place] if place > first else begin,
                    places[place + step] if place + step < len(whole) else end,
                ),
            )
            for place in range(first, len(whole), step)
        ]


Line = Union[str, PreparedLine]


def raw_text(line: Line) -> str:
    """The raw text of a line, which may be given with its subwords."""
    return line if isinstance(line, str) else line.text


def longest_first(rows: Sequence[Sequence[int]], size: int) -> Iterator[List[int]]:
    """Yields batches of indices of ``rows``, at most ``size`` in each, the longest rows first."""
    order = sorted(range(len(rows)), key=lambda number: -len(rows[number]))
    return (order[start : start + size] for start in range(0, len(order), size))


@dataclass
class Translation:
    """One translated line.

    Attributes:
        text: raw text.
        source: the raw line.
        tokens: subwords, ``</s>`` included.
        score: the score by which hypotheses are ranked, the mean of the pieces' scores if the line
            was split; None for a line without words.
        positional_scores: log-probability of each token.
        steps: decoder passes for the sentence, summed over pieces.
        token_steps: the decoder pass (1 = first) in which each token became final.
        alignment: with ``replace_unk`` or ``print_alignment``, the source subword (from 0) of each
            token.
        alternatives: further hypotheses, best first (``nbest``).
        terms: the terms of a glossary whose given translations are in ``text``, in the order of
            these translations.
    """

    text: str
    source: str
    tokens: List[str] = field(default_factory=list)
    score: Optional[float] = None
    positional_scores: List[float] = field(default_factory=list)
    steps: int = 0
    token_steps: List[int] = field(default_factory=list)
    alignment: List[int] = field(default_factory=list)
    alternatives: List["Translation"] = field(default_factory=list)
    terms: List[GivenTerm] = field(default_factory=list)


def checked_batch_size(size: int) -> int:
    """Returns ``size``; raises ValueError if it is not a positive integer."""
    if not isinstance(size, int) or size < 1:
        raise ValueError(
            f"batch_size={size!r}: give the number of sentences per batch, an integer of at least 1"
        )
    return size


def require_lines(lines: Sequence[object]) -> None:
    """Raises TypeError if a line is neither a str nor a :class:`PreparedLine`."""
    for number, line in enumerate(lines):
        if not isinstance(line, (str, PreparedLine)):
            raise TypeError(
                f"line {number} is {line!r:.40}, of the type {type(line).__name__}: give strings"
                " (str)"
            )


def require_raw(lines: Sequence[object], function: str) -> None:
    """Raises TypeError if a line is not a str; the message names the ``function`` that takes the
    lines."""
    require_lines(lines)
    if not all(isinstance(line, str) for line in lines):
        raise TypeError(f"{function}() takes raw lines, not lines that are prepared already")


def require_pairs(sources: Sequence[str], targets: Sequence[str], batch_size: int) -> None:
    """Raises ValueError if the numbers of sources and targets differ, one of these is a single str,
    or the batch size is not positive; TypeError if a line is not a str."""
    if isinstance(sources, str) or isinstance(targets, str):
        raise ValueError(
            "sources and targets are lists of lines; for one pair give score([source], [target])"
        )
    require_raw([*sources, *targets], "score")
    if len(sources) != len(targets):
        raise ValueError(
            f"{len(sources)} sources but {len(targets)} targets: they must correspond line by line"
        )
    checked_batch_size(batch_size)


def require_lengths(number: int, lengths: Sequence[int], longest: Sequence[int]) -> None:
    """Raises ValueError if the source or target of pair ``number`` (from 0, for the message) is
    longer than the model takes. ``lengths`` are the pair's numbers of tokens (source, target) with
    ``</s>``, ``longest`` the most that the model takes."""
    for side, length, most in zip(("source", "target"), lengths, longest):
        if length > most:
            raise ValueError(
                f"the {side} of pair {number} has {length} subwords with </s>, the model takes"
                f" {most}: shorten or split it"
            )


def joined_texts(texts: Iterable[str]) -> str:
    """The translation of a line from the texts of its pieces' translations."""
    return " ".join(text for text in texts if text)


def join_pieces(line: str, parts: Sequence[Translation]) -> Translation:
    """Joins the translations of a line's pieces, ``parts``, into one translation of the line; a
    line without words has no pieces. Its ``alternatives`` combine those of the pieces, best first,
    as many as a piece has."""
    if not parts:
        return Translation("", line)
    if len(parts) == 1:
        return parts[0]
    joined, most = _joined(line, parts), max(len(part.alternatives) for part in parts)
    if most:
        joined.alternatives = [_joined(line, own) for own in _combined(parts, most)]
    return joined


def _combined(parts: Sequence[Translation], most: int) -> Iterator[List[Translation]]:
    """Yields at most ``most`` combinations of one translation of each piece, those of the largest
    total score, best first, without that of the best translations, ``parts``."""
    # A combination: (how far its score is below that of the best translations, exactly 0 for these
    # themselves; its translation of the last piece; the combination of the pieces before).
    chosen: List[Any] = [(0.0, None, None)]
    for part in parts:
        # A piece may have one text by several paths.
        texts: Dict[str, Translation] = {}
        for one in (part, *part.alternatives):
            texts.setdefault(one.text, one)
        longer = (
            (before[0] + (part.score or 0.0) - (one.score or 0.0), one, before)
            for before in chosen
            for one in texts.values()
        )
        chosen = nsmallest(most + 1, longer, key=itemgetter(0))
    for last in chosen:
        combination: List[Translation] = []
        while last[1] is not None:
            combination.append(last[1])
            last = last[2]
        combination.reverse()
        if most and any(one is not best for one, best in zip(combination, parts)):
            most -= 1
            yield combination


def _joined(line: str, parts: Sequence[Translation]) -> Translation:
    scores = [part.score for part in parts if part.score is not None]
    text, terms = "", []
    for part in parts:
        if part.text:
            text += f" {part.text}" if text else part.text
            terms += [one.moved(len(text) - len(part.text)) for one in part.terms]
    return Translation(
        text=text,
        source=line,
        tokens=[token for part in parts for token in part.tokens],
        score=sum(scores) / len(scores) if len(scores) == len(parts) else None,
        positional_scores=[score for part in parts for score in part.positional_scores],
        steps=sum(part.steps for part in parts),
        token_steps=[step for part in parts for step in part.token_steps],
        alignment=[place for part in parts for place in part.alignment],
        terms=terms,
    )
