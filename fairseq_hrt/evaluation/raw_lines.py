"""Measures the translation of raw lines, as a user waits for it: tokenisation and detokenisation
included."""

from typing import List, Sequence

from ..native.text.pipeline import TextPipeline
from .systems import System


class RawLines:
    """A system together with its text preparation, behind the interface :class:`.speed.Timed`, so
    that :func:`.speed.measure` times tokenising, decoding and detokenising as one.

    Args:
        system: the loaded system.
        pipeline: turns raw text into the system's words, and words into text.
        lines: raw source lines; the id of a sentence is the index of its line.
    """

    def __init__(self, system: System, pipeline: TextPipeline, lines: Sequence[str]) -> None:
        self.name, self.counters, self.generator = system.name, system.counters, system.generator
        self.system, self.pipeline, self.lines = system, pipeline, lines

    def collate(self, ids: Sequence[int]) -> List[str]:
        """The raw lines with these indices."""
        return [self.lines[i] for i in ids]

    def decode(self, sample: List[str]) -> List[str]:
        """Translates raw lines into raw text; a line without words becomes an empty one."""
        prepared = [self.pipeline.words(line) for line in sample]
        filled = [number for number, words in enumerate(prepared) if words]
        found = [""] * len(sample)
        if filled:
            batch = self.system.collate_text([" ".join(prepared[number]) for number in filled])
            for number, hypotheses in zip(batch["id"].tolist(), self.system.decode(batch)):
                dictionary = self.system.task.target_dictionary
                # The pipeline joins the subwords.
                found[filled[number]] = self.pipeline.text(dictionary.string(hypotheses[0].tokens))
        return found


def differing_sentences(system: System, pipeline: TextPipeline, lines: Sequence[str]) -> int:
    """The number of raw lines that the pipeline turns into other words than the system's data set
    holds.

    Raises:
        ValueError: the number of lines is not that of the sentences in the data.
    """
    if len(lines) != len(system.dataset):
        raise ValueError(
            f"{len(lines)} raw source lines but {len(system.dataset)} sentences in the data:"
            " give one line for each sentence"
        )
    dictionary = system.task.source_dictionary
    return sum(
        [dictionary.index(word) for word in pipeline.words(line)]
        != system.dataset[number]["source"].tolist()[:-1]
        for number, line in enumerate(lines)
    )
