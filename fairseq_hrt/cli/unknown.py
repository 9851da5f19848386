"""Warns if most words of the input are unknown to the model, since the text may be of another
language or domain."""

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
    """Counts the input lines that consist mostly of words unknown to the model, in the attribute
    ``lines``, and logs a warning for each of the first :data:`NAMED` such lines. Pass every block
    of lines to :meth:`look`, in order, then call :meth:`sum_up`.

    Args:
        model: a :class:`~..native.bundles.translator.Translator`.
        name: the input's name, for the warnings.
    """

    def __init__(self, model: Any, name: str) -> None:
        self.model, self.name, self.lines = model, name, 0

    def look(self, texts: Sequence["Line"], before: int) -> None:
        """Checks the next lines of the input for words unknown to the model, and logs warnings.

        Args:
            texts: the lines, raw or as ``model.in_words`` returns them (with their subwords).
            before: how many lines of the input precede ``texts``.
        """
        for number, text in enumerate(texts, before + 1):
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
        """Logs how many lines of the whole input consist mostly of unknown words, if :meth:`look`
        has not warned of each."""
        if self.lines > NAMED:
            languages = (self.model.bundle.source_lang, self.model.bundle.target_lang)
            logger.warning(
                "%s: the model does not know most words of %d lines; it translates %s to %s",
                self.name,
                self.lines,
                *languages,
            )
