"""Warns of input that the model probably mistranslates: lines most of whose words it does not know,
since they may be of another language or domain, and lines that begin with a language token which it
lacks."""

import logging
from typing import TYPE_CHECKING, Any, Sequence

from ..native.bundles.translation import raw_text
from ..native.io.escaping import printable
from ..native.text.pipeline import target_tokens

if TYPE_CHECKING:
    from ..native.bundles.translation import Line

logger = logging.getLogger(__name__)
# Lines with a warning of their own; further ones are only counted.
NAMED = 3
# The most words of a line that its warning lists, and the most characters of each.
WORDS, LONGEST = 5, 40


class UnknownWords:
    """Counts the input lines that consist mostly of words unknown to the model, in the attribute
    ``lines``, and those that begin with a language token which it lacks, in ``tokens``. Logs a
    warning for each of the first :data:`NAMED` such lines. Pass every block of lines to
    :meth:`look`, in order, then call :meth:`sum_up`.

    Args:
        model: a :class:`~..native.bundles.translator.Translator`.
        name: the input's name, for the warnings.
    """

    def __init__(self, model: Any, name: str) -> None:
        self.model, self.name, self.lines, self.tokens = model, name, 0, 0

    def look(self, texts: Sequence["Line"], before: int) -> None:
        """Checks the next lines of the input, and logs warnings.

        Args:
            texts: the lines, raw or as ``model.in_words`` returns them (with their subwords).
            before: how many lines of the input precede ``texts``.
        """
        for number, text in enumerate(texts, before + 1):
            words = self.model.mostly_unknown(text)
            self.lines += bool(words)
            if words and self.lines <= NAMED:
                logger.warning(
                    "%s, line %d: the model does not know most of these words: %s",
                    self.name,
                    number,
                    _some(words),
                )
            token = self.model.pipeline.unknown_token(raw_text(text))
            self.tokens += token is not None
            if token is not None and self.tokens <= NAMED:
                logger.warning(
                    "%s, line %d: %s is not one of the model's language tokens (%s), so it is"
                    " translated as text, into %s",
                    self.name,
                    number,
                    _some([token]),
                    _some(target_tokens(self.model.source.words)),
                    self.model.bundle.target_lang,
                )

    def sum_up(self) -> None:
        """Logs how many lines of the whole input :meth:`look` has found, if it has not warned of
        each."""
        if self.lines > NAMED:
            languages = (self.model.bundle.source_lang, self.model.bundle.target_lang)
            logger.warning(
                "%s: the model does not know most words of %d lines; it translates %s to %s",
                self.name,
                self.lines,
                *languages,
            )
        if self.tokens > NAMED:
            logger.warning(
                "%s: %d lines begin with a language token that the model lacks",
                self.name,
                self.tokens,
            )


def _some(words: Sequence[str]) -> str:
    """The first words of a list, long ones cut, for a message."""
    cut = (f"{word[:LONGEST]}…" if word[LONGEST:] else word for word in words[:WORDS])
    return printable(", ".join(cut)) + (", …" if len(words) > WORDS else "")
