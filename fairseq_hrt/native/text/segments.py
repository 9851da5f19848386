"""Texts to sentences and back, white space and paragraphs as they were.

Models translate single sentences. A text is cut by sentencex (Wikimedia's splitter, all languages,
no model to load); what stands around and between the sentences is kept and put back.
"""

import itertools
import logging
import re
from dataclasses import dataclass
from typing import List, Sequence

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Segments:
    """A text as sentences and what stands around them.

    Attributes:
        sentences: without white space around them.
        gaps: one more than sentences: what stands before, between and behind them.
    """

    sentences: List[str]
    gaps: List[str]

    def join(self, translations: Sequence[str]) -> str:
        """The text with its sentences replaced."""
        parts = [self.gaps[0]]
        for translation, gap in zip(translations, self.gaps[1:]):
            parts += [translation, gap]
        return "".join(parts)


# sentencex 1.0 takes the character in front of a full stop to be one byte long, and panics at "B",
# U+3000, ".".
_WIDE_SPACE = re.compile(r"[^\S\x00-\x7f]")


def _pieces(line: str, language: str) -> List[str]:
    """The sentences of a line with the white space around them; together they are the line."""
    import sentencex

    try:
        found = sentencex.segment(language, _WIDE_SPACE.sub(" ", line))
    except BaseException as error:
        # A panic of Rust is not an Exception in Python, so nothing else would catch it.
        if type(error).__name__ != "PanicException":
            raise
        # The message may hold the text.
        logger.warning(
            "the sentence splitter failed at a line of %d characters, which is kept whole",
            len(line),
        )
        return [line]
    ends = list(itertools.accumulate(map(len, found)))
    return [line[start:end] for start, end in zip([0, *ends], ends)]


def split(text: str, language: str) -> Segments:
    """Cuts a text; each line break ends a sentence, as a new line is seldom in the middle of
    one."""
    sentences, gaps, gap = [], [], ""
    # Line breaks stay as they are, whatever the splitter thinks of them. The white space around
    # them is left to strip(): to look for it in front of a line break takes quadratic time where
    # there is much of it and no line break.
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
