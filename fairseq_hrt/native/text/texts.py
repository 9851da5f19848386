"""Splits a text into the sentences that are translated, and joins their translations."""

from typing import Any, Callable, List, Optional, Sequence

from .given_terms import links_with_terms, without_terms
from .html_text import MarkedUpText
from .passages import Document
from .sentences import Segments, split
from .unknown_symbols import all_links
from .word_alignment import Link


class DecodedText:
    """A text to translate: it is split into sentences, and their translations are joined.

    Args:
        text: the text.
        form: ``text`` or ``html``.
        language: code of the text's language, for the sentence splitter.
        subwords: function that returns the subwords of a sentence: the alignments of translations
            hold their indices. None: translations have no alignments.
        keep: keep placeholders (addresses, tags, ``{name}``) in plain text untranslated, as in
            HTML.

    Attributes:
        sentences: the sentences to translate.
        translations: the :class:`..bundles.translation.Translation` of each, set by the caller.
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
        """Whether the translations need alignments, because a passage of the text has marks (tags,
        placeholders), which have to be put into its translation."""
        return any(passage.marked for passage in self._document.passages)

    def text(self, rank: int = 0) -> str:
        """The translated text, made from :attr:`translations`. ``rank`` 0 takes the best
        translation of each sentence, n > 0 its n-th alternative, or the best if it has fewer."""
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
        """The links between a passage and its translation, made from the alignments of its
        sentences' ``translations``. ``segments``: the passage's sentences."""
        found: List[Link] = []
        source = target = len(segments.gaps[0])
        for sentence, one, gap in zip(segments.sentences, translations, segments.gaps[1:]):
            subwords = self._subwords(sentence) if self._subwords is not None else ()
            given = getattr(one, "terms", ())
            own = all_links(
                sentence, subwords, without_terms(one.text, given), one.tokens, one.alignment
            )
            for link in links_with_terms(own, given):
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
