"""Splits texts into sentences and joins them again, with white space and paragraphs as they were.

Models translate single sentences. The splitter is sentencex (by Wikimedia; all languages, no model
to load).
"""

import itertools
import logging
import re
from dataclasses import dataclass
from typing import List, Sequence

from .languages import language_of

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Segments:
    """A text as sentences and the white space around them.

    Attributes:
        sentences: the sentences, stripped.
        gaps: the white space before, between and behind the sentences: one entry more than
            ``sentences``.
    """

    sentences: List[str]
    gaps: List[str]

    def join(self, translations: Sequence[str]) -> str:
        """The text with its sentences replaced by ``translations``, one for each."""
        parts = [self.gaps[0]]
        for translation, gap in zip(translations, self.gaps[1:]):
            parts += [translation, gap]
        return "".join(parts)


# sentencex 1.0 assumes one byte for the character before a full stop and panics at "B", U+3000,
# ".".
_WIDE_SPACE = re.compile(r"[^\S\x00-\x7f]")


def _pieces(line: str, language: str) -> List[str]:
    """Splits a line in the language with the given code into sentences, each with the white space
    around it, so that all of them joined are the line."""
    import sentencex

    try:
        found = sentencex.segment(language, _WIDE_SPACE.sub(" ", line))
    except BaseException as error:
        # A panic in Rust is a BaseException in Python, which nothing else would catch.
        if type(error).__name__ != "PanicException":
            raise
        # The error is not logged: its message may contain the user's text.
        logger.warning(
            "the sentence splitter failed at a line of %d characters: it is translated as one"
            " sentence",
            len(line),
        )
        return [line]
    ends = list(itertools.accumulate(map(len, found)))
    return [line[start:end] for start, end in zip([0, *ends], ends)]


def split(text: str, language: str) -> Segments:
    """Splits a text into sentences; each line break ends one. Returns the sentences, stripped, and
    the white space around them. ``language``: code of the text's language, e.g. ``en`` or
    ``deu_Latn``."""
    language = language_of(language)
    sentences, gaps, gap = [], [], ""
    # Line breaks are split off first. White space around them is left to strip(): an expression
    # that matches it before a line break takes quadratic time on long runs without one.
    for piece in re.split(r"([\r\n\x0b\x0c\x85\u2028\u2029]+)", text):
        for sentence in _pieces(piece, language) if piece.strip() else [piece]:
            core = sentence.strip()
            if not core:
                gap += sentence
                continue
            start = sentence.index(core)
            sentences.append(core)
            gaps.append(gap + sentence[:start])
            gap = sentence[start + len(core) :]
    return Segments(sentences, [*gaps, gap])
