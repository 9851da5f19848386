"""A text of a request on its way: to sentences, and from their translations to a text again."""

from typing import Any, List

from .markup import MarkedUpText
from .segments import Segments, split


class DecodedText:
    """One text on its way: cut into sentences, then put together from their translations."""

    def __init__(self, text: str, form: str, language: str) -> None:
        self._html = MarkedUpText(text) if form == "html" else None
        pieces = [text] if self._html is None else self._html.texts
        self._segments: List[Segments] = [split(piece, language) for piece in pieces]
        self.sentences = [sentence for segments in self._segments for sentence in segments.sentences]
        self.translations: List[Any] = []

    def text(self, rank: int = 0) -> str:
        """The translation; ``rank`` > 0 takes that alternative of each sentence, its best where it has not as many."""
        chosen = [_ranked(translation, rank) for translation in self.translations]
        joined, place = [], 0
        for segments in self._segments:
            joined.append(segments.join(chosen[place : place + len(segments.sentences)]))
            place += len(segments.sentences)
        return joined[0] if self._html is None else self._html.join(joined)


def _ranked(translation: Any, rank: int) -> str:
    return translation.alternatives[rank - 1].text if 0 < rank <= len(translation.alternatives) else translation.text
