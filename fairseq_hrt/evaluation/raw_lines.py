"""Translation of raw lines, as a user waits for it: with tokenisation and detokenisation."""

from typing import List, Sequence

from ..native.text.pipeline import TextPipeline
from .systems import System


class RawLines:
    """A system with its text preparation, timed like a system (:class:`.speed.Timed`).

    Args:
        system: loaded.
        pipeline: prepares its text.
        lines: raw source lines; sentence ids are their numbers.
    """

    def __init__(self, system: System, pipeline: TextPipeline, lines: Sequence[str]) -> None:
        self.name, self.counters, self.generator = system.name, system.counters, system.generator
        self.system, self.pipeline, self.lines = system, pipeline, lines

    def collate(self, ids: Sequence[int]) -> List[str]:
        """The raw lines."""
        return [self.lines[i] for i in ids]

    def decode(self, sample: List[str]) -> List[str]:
        """Translates raw lines; a line without words gives an empty one."""
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
    """Number of raw lines that the pipeline prepares differently from the binarised data.

    Raises:
        ValueError: there are more or fewer lines than sentences.
    """
    if len(lines) != len(system.dataset):
        raise ValueError(
            f"{len(lines)} raw source lines but {len(system.dataset)} sentences in the data: they"
            " must correspond"
        )
    dictionary = system.task.source_dictionary
    return sum(
        [dictionary.index(word) for word in pipeline.words(line)]
        != system.dataset[number]["source"].tolist()[:-1]
        for number, line in enumerate(lines)
    )
