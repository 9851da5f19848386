"""Raw line in, raw line out: what a user waits for, tokenisation and detokenisation included."""

from typing import List, Sequence

from ..native.text.pipeline import TextPipeline
from .systems import System


class RawLines:
    """A system behind its text preparation, to be measured like a system.

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
        """Their translations; a line without words has an empty one."""
        prepared = [self.pipeline.words(line) for line in sample]
        filled = [number for number, words in enumerate(prepared) if words]
        found = [""] * len(sample)
        if filled:
            batch = self.system.collate_text([" ".join(prepared[number]) for number in filled])
            for number, hypotheses in zip(batch["id"].tolist(), self.system.decode(batch)):
                dictionary = self.system.task.target_dictionary
                # Subwords as they are: joining them is the pipeline's business.
                found[filled[number]] = self.pipeline.text(dictionary.string(hypotheses[0].tokens))
        return found


def differing_sentences(system: System, pipeline: TextPipeline, lines: Sequence[str]) -> int:
    """Sentences whose raw line, prepared now, is not what the binarised data hold.

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
