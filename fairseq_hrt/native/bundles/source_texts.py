"""Splits raw lines into sentences, into pieces that a decoder takes, and into subwords."""

from dataclasses import replace
from typing import List, Sequence

from ..text.dictionary import Words
from ..text.pipeline import TextPipeline
from ..text.sentences import split
from ..text.unknown_symbols import UnknownSymbols
from .translation import Line, PreparedLine


class SourceTexts:
    """Splits lines for a model. Safe to use from several threads.

    Args:
        pipeline: splits text into the model's subwords.
        source: the source dictionary.
        language: the code of the source language.
    """

    def __init__(self, pipeline: TextPipeline, source: Words, language: str) -> None:
        self._pipeline, self._source, self._language = pipeline, source, language
        self._unknown = UnknownSymbols(pipeline, source)

    def in_words(self, line: Line) -> PreparedLine:
        """Splits a line into subwords but not into pieces; :meth:`pieces` takes the result in place
        of the line. A line that is prepared already is returned as it is."""
        if not isinstance(line, str):
            return line
        words, symbols = self._unknown.words(line)
        return PreparedLine(line, words, symbols=symbols)

    def in_sentences(self, line: str) -> List[PreparedLine]:
        """The sentences of a line, as pieces of it; none if it is empty. The language token with
        which a line begins holds for all its sentences that have none of their own.

        Raises:
            ImportError: the package that splits sentences is not installed.
        """
        found, sentences = split(line, self._language), []
        begin = start = 0
        token, _ = self._pipeline.own_token(line)
        prefix = self._pipeline.prefix_length
        for sentence, gap in zip(found.sentences, found.gaps):
            begin += len(gap)
            own = self.in_words(sentence)
            if token and own.words and not self._pipeline.own_token(sentence)[0]:
                own = replace(own, words=self._pipeline.with_token(own.words, token))
            span = begin, begin + len(sentence)
            sentences.append(replace(own, text=line, start=start, span=span))
            begin += len(sentence)
            start += len(own) - prefix
        return sentences

    def pieces(self, line: Line, longest: int) -> List[PreparedLine]:
        """Splits a line into pieces of at most ``longest`` subwords; a line without words is one
        piece."""
        return PreparedLine.pieces(self.in_words(line), self._pipeline, longest)

    def cut(self, lines: Sequence[Line], longest: int) -> List[List[PreparedLine]]:
        """The pieces of each line, see :meth:`pieces`; none for a line without words."""
        return [[one for one in self.pieces(line, longest) if one.words] for line in lines]

    def ids(self, pieces: Sequence[Sequence[PreparedLine]]) -> List[List[int]]:
        """The source ids of each piece, ``</s>`` last, those of all lines in one flat list."""
        return [[*self._source.ids(one.words), self._source.eos] for own in pieces for one in own]
