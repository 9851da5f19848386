"""Raw lines through a system: order and blank lines, whatever stands between."""

from types import SimpleNamespace

import torch

from fairseq_hrt.engine.counters import GenerationCounters
from fairseq_hrt.evaluation.raw_lines import RawLines
from fairseq_hrt.native.decoding import Hypothesis
from fairseq_hrt.native.text.pipeline import TextPipeline
from fairseq_hrt.native.text.recipe import TextRecipe


class Backwards:
    """Writes the words of a sentence backwards, sentences in the opposite order, as a sorted batch
    may come."""

    name, counters, generator = "backwards", GenerationCounters(), None

    def __init__(self, dictionary):
        self.task = SimpleNamespace(target_dictionary=dictionary)

    def collate_text(self, lines):
        return {"id": torch.arange(len(lines)).flip(0), "lines": list(lines)[::-1]}

    def decode(self, sample):
        dictionary = self.task.target_dictionary
        rows = [[dictionary.index(word) for word in line.split()[::-1]] for line in sample["lines"]]
        return [[Hypothesis([*row, dictionary.eos()], 0.0, [])] for row in rows]


def test_lines_keep_their_order_and_blank_ones_stay_blank(tiny):
    lines = ["", "w1 w2", " \t", "w3", "w4 w5 w6", "\u2028"]
    system = RawLines(
        Backwards(tiny.dictionary()), TextPipeline(TextRecipe("en", "de", "space", "none")), lines
    )
    assert system.decode(system.collate(range(6))) == ["", "w2 w1", "", "w3", "w6 w5 w4", ""]
    assert system.decode(system.collate([2])) == [""]
