"""Alignments as fairseq prints them; the rest is tested with the verb."""

from fairseq_hrt.cli.output_lines import pairs
from fairseq_hrt.native.bundles.translation import Translation


def test_ends_are_left_out_wherever_they_stand():
    # A line that was cut has the end of each piece.
    found = Translation("", "", tokens=["a", "</s>", "b", "c", "</s>"], alignment=[1, 1, 3, 2, 3])
    assert pairs(found) == "1-0 3-1 2-2" and pairs(Translation("", "")) == ""
