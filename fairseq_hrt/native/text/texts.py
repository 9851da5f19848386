"""A text of a request on its way: to sentences, and from their translations to a text again."""

from typing import Any, Callable, List, Optional, Sequence

from .markup import MarkedUpText
from .passages import Document
from .segments import Segments, split
from .word_alignment import Link, links


class DecodedText:
    """One text on its way: cut into sentences, then put together from their translations.

    Args:
        text: of the request.
        form: ``text`` or ``html``.
        language: of the text.
        subwords: of a sentence, as its translation is aligned with them; None: translations have no
            alignments.
        keep: whether placeholders of plain text are kept; those of HTML always are.

    Attributes:
        sentences: what is translated.
        translations: of these, to be put in.
    """

    def __init__(
        self,
        text: str,
        form: str,
        language: str,
        subwords: Optional[Callable[[str], Sequence[str]]] = None,
        keep: bool = False,
    ) -> None:
        self._subwords = subwords
        aligned = subwords is not None
        self._document = (
            MarkedUpText(text, aligned) if form == "html" else _plain_text(text, aligned, keep)
        )
        self._segments: List[Segments] = [
            split(passage.text, language) for passage in self._document.passages
        ]
        self.sentences = [
            sentence for segments in self._segments for sentence in segments.sentences
        ]
        self.translations: List[Any] = []

    @property
    def aligned(self) -> bool:
        """Whether the translations have to come with alignments."""
        return any(passage.marked for passage in self._document.passages)

    def text(self, rank: int = 0) -> str:
        """The translation; ``rank`` > 0 takes that alternative of each sentence, its best where it
        has not as many."""
        chosen = [_ranked(translation, rank) for translation in self.translations]
        joined, place = [], 0
        for passage, segments in zip(self._document.passages, self._segments):
            own = chosen[place : place + len(segments.sentences)]
            place += len(own)
            translation = segments.join([one.text for one in own])
            found = self._links(segments, own) if passage.marked else []
            joined.append(passage.write(translation, found))
        return self._document.join(joined)

    def _links(self, segments: Segments, translations: Sequence[Any]) -> List[Link]:
        """Between a passage and its translation."""
        found: List[Link] = []
        source = target = len(segments.gaps[0])
        for sentence, one, gap in zip(segments.sentences, translations, segments.gaps[1:]):
            subwords = self._subwords(sentence) if self._subwords is not None else ()
            for link in links(sentence, subwords, one.text, one.tokens, one.alignment):
                found.append(Link(link.start + target, link.end + target, link.source + source))
            source += len(sentence) + len(gap)
            target += len(one.text) + len(gap)
        return found


def _plain_text(text: str, aligned: bool, keep: bool) -> Document:
    document = Document(aligned=aligned)
    if keep:
        document.add(text)
    elif text:
        document.passage.add(text)
    document.end()
    return document


def _ranked(translation: Any, rank: int) -> Any:
    return (
        translation.alternatives[rank - 1]
        if 0 < rank <= len(translation.alternatives)
        else translation
    )
