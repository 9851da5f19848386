"""Warns if a model does not know the words of its input: another language, or another domain."""

import logging
from typing import TYPE_CHECKING, Any, Sequence

from ..native.io.escaping import printable

if TYPE_CHECKING:
    from ..native.bundles.translation import Line

logger = logging.getLogger(__name__)
# Lines that are named; further ones are only counted.
NAMED = 3
# Words that are named of a line, and characters of each.
WORDS, LONGEST = 5, 40


class UnknownWords:
    """Warns of lines that consist mostly of unknown words.

    Args:
        model: a :class:`~..native.bundles.translator.Translator`.
        name: of the input, for messages.
    """

    def __init__(self, model: Any, name: str) -> None:
        self.model, self.name, self.lines = model, name, 0

    def look(self, texts: Sequence["Line"], begun: int) -> None:
        """Checks a block of lines; ``begun`` is the number of lines before it."""
        for number, text in enumerate(texts, begun + 1):
            words = self.model.mostly_unknown(text)
            self.lines += bool(words)
            if words and self.lines <= NAMED:
                more = ", …" if len(words) > WORDS else ""
                cut = (f"{word[:LONGEST]}…" if word[LONGEST:] else word for word in words[:WORDS])
                named = printable(", ".join(cut)) + more
                logger.warning(
                    "%s, line %d: the model does not know most of these words: %s",
                    self.name,
                    number,
                    named,
                )

    def sum_up(self) -> None:
        """Logs the number of such lines, if not all of them were named."""
        if self.lines > NAMED:
            languages = (self.model.bundle.source_lang, self.model.bundle.target_lang)
            logger.warning(
                "%s: the model does not know most words of %d lines; it translates %s to %s",
                self.name,
                self.lines,
                *languages,
            )
