"""The text of a translation, from the subwords that a decoder found."""

from typing import Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ..decoding import Hypothesis
from ..text.dictionary import Words
from ..text.given_terms import GivenTerm, with_terms
from ..text.glossary import Glossary, Term, within_word
from ..text.pipeline import TextPipeline
from ..text.replacement import with_words
from ..text.unknown_symbols import all_links, with_symbols
from .translation import PreparedLine, Translation

# Most translations of terms, each translated as a text of its own, that are kept.
_MOST_ALONE = 10_000


class PieceTerms(NamedTuple):
    """The terms of a glossary in a piece of a line.

    Attributes:
        found: the terms, in the order in which they stand in the piece.
        alone: the model's own translation of each term, when the term is the whole source.
    """

    found: Sequence[Term] = ()
    alone: Sequence[str] = ()


NO_TERMS = PieceTerms()
# Texts → for each text (its first piece, that piece's best translation); None if it has no words.
Translate = Callable[[Sequence[str]], Sequence[Optional[Tuple[PreparedLine, Hypothesis]]]]


class HypothesisTexts:
    """Writes the texts of a model's translations. Safe to use from several threads.

    Args:
        pipeline: detokenises the translations.
        target: the target dictionary.
        subwords: the kind of the model's subwords, e.g. ``sentencepiece``.
    """

    def __init__(self, pipeline: TextPipeline, target: Words, subwords: str) -> None:
        self._pipeline, self._target, self._subwords = pipeline, target, subwords
        # {term: its translation alone}
        self._alone: Dict[str, str] = {}

    def symbols(self, hypothesis: Hypothesis) -> List[str]:
        """The subwords of a hypothesis, ``</s>`` included."""
        words = self._target.words
        return [words[token] for token in hypothesis.tokens]

    def text(
        self,
        hypothesis: Hypothesis,
        piece: PreparedLine,
        lexicon: Optional[Mapping[str, str]],
        terms: PieceTerms = NO_TERMS,
    ) -> Tuple[str, List[GivenTerm]]:
        """Returns the raw text of a hypothesis, and the list of the terms whose given translations
        it contains.

        Symbols of the source that the model lacks are inserted in the text, and the translations
        of terms are replaced by the glossary's.

        Args:
            hypothesis: the translation of ``piece``.
            piece: the source.
            lexicon: {source word: translation}, with which ``<unk>`` is replaced by the translation
                of the aligned source word or, if that is not in it, by the source word itself;
                None: nothing is replaced.
            terms: the terms in ``piece``.
        """
        end, unknown = (self._target.words[own] for own in (self._target.eos, self._target.unk))
        tokens = written = self.symbols(hypothesis)
        if lexicon is not None:
            written = with_words(
                tokens,
                hypothesis.alignment,
                piece.words,
                scheme=self._subwords,
                lexicon=lexicon,
                unknown=unknown,
                first=self._pipeline.prefix_length,
            )
        text = self._pipeline.text(" ".join([word for word in written if word != end]))
        if piece.symbols:
            text = with_symbols(
                text,
                tokens,
                hypothesis.alignment,
                piece.symbols,
                piece.words,
                self._pipeline.prefix_length,
            )
        if not terms.found:
            return text, []
        source = piece.own_text
        found = all_links(source, piece.words, text, tokens, hypothesis.alignment)
        text, given = with_terms(source, text, found, terms.found, terms.alone)
        return text, [one.moved(0, piece.span[0] if piece.span else 0) for one in given]

    def translation(
        self,
        hypotheses: Sequence[Hypothesis],
        piece: PreparedLine,
        lexicon: Optional[Mapping[str, str]],
        terms: PieceTerms,
        aligned: bool,
    ) -> Translation:
        """The translation of a piece, with its alternatives.

        Args:
            hypotheses: the translations of ``piece``, best first.
            piece, lexicon, terms: see :meth:`text`.
            aligned: whether the result is to have the alignments of ``hypotheses``.
        """
        found = []
        for hypothesis in hypotheses:
            text, given = self.text(hypothesis, piece, lexicon, terms)
            found.append(
                Translation(
                    text=text,
                    source=piece.text,
                    tokens=self.symbols(hypothesis),
                    score=hypothesis.score,
                    positional_scores=list(hypothesis.positional_scores),
                    steps=hypothesis.steps,
                    token_steps=list(hypothesis.token_steps),
                    # Hypotheses may have alignments only to place unknown symbols or terms.
                    alignment=[place + piece.start for place in hypothesis.alignment if aligned],
                    terms=given,
                )
            )
        best, *best.alternatives = found
        return best

    def terms(
        self, pieces: Sequence[PreparedLine], glossary: Optional[Glossary], translate: Translate
    ) -> List[PieceTerms]:
        """Finds the glossary's terms in each piece, and the model's translation of each term alone,
        see :meth:`alone`; no terms if ``glossary`` is None. Returns one result for each piece."""
        if glossary is None:
            return [NO_TERMS] * len(pieces)
        found = [[*terms_in(piece, glossary)] for piece in pieces]
        names = [
            [piece.own_text[one.start : one.end] for one in own]
            for piece, own in zip(pieces, found)
        ]
        kept = self.alone([name for own in names for name in own], translate)
        return [PieceTerms(own, [kept[name] for name in texts]) for own, texts in zip(found, names)]

    def alone(self, names: Sequence[str], translate: Translate) -> Mapping[str, str]:
        """Returns the model's translations of the terms ``names``, each translated as a text of its
        own: {term: translation}. They are kept for later calls, and those of earlier calls are in
        the result, too; ``translate`` is called only with terms that are not kept."""
        kept = self._alone
        if len(kept) > _MOST_ALONE:
            # A new dictionary, since another thread may be reading the old one.
            self._alone = kept = dict([*kept.items()][_MOST_ALONE // 2 :])
        new = sorted(set(names).difference(kept))
        for name, best in zip(new, translate(new) if new else ()):
            kept[name] = "" if best is None else self.text(best[1], best[0], None)[0]
        return kept

    def new(self, pieces: Sequence[PreparedLine], glossary: Glossary) -> List[str]:
        """The terms of a glossary that occur in ``pieces`` and that :meth:`alone` has not
        translated yet, sorted, each once."""
        found = {
            piece.own_text[one.start : one.end]
            for piece in pieces
            for one in terms_in(piece, glossary)
        }
        return sorted(found.difference(self._alone))


def terms_in(piece: PreparedLine, glossary: Glossary) -> Iterator[Term]:
    """Yields the terms of a glossary in a piece of a line, with places in the piece's own text. A
    term is skipped if it is only a part of a word through which the line was cut."""
    begin = piece.span[0] if piece.span else 0
    for one in glossary.find(piece.own_text):
        if not any(within_word(piece.text, begin + place) for place in (one.start, one.end)):
            yield one
