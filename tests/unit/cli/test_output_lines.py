"""Alignments as fairseq prints them; the rest is tested with the verb."""

import json

from fairseq_hrt.cli.output_lines import pairs, to_json
from fairseq_hrt.native.bundles.translation import Translation
from fairseq_hrt.native.text.given_terms import GivenTerm


def test_terms_are_written_only_where_there_are_some():
    plain = Translation("b", "a", alternatives=[Translation("c", "a")])
    found = Translation("x", "a", terms=[GivenTerm("a", 0, "x", 0, 1, "b")])
    assert "terms" not in to_json(plain) and json.loads(to_json(plain))["alternatives"]
    (term,) = json.loads(to_json(found))["terms"]
    assert (term["source"], term["text"], term["replaced"], term["end"]) == ("a", "x", "b", 1)


def test_ends_are_left_out_wherever_they_stand():
    # A line that was cut has the end of each piece.
    found = Translation("", "", tokens=["a", "</s>", "b", "c", "</s>"], alignment=[1, 1, 3, 2, 3])
    assert pairs(found) == "1-0 3-1 2-2" and pairs(Translation("", "")) == ""
