"""What fairseq's command line reads of a finished translation."""

import torch

from fairseq_hrt.decoding.generator import AutoregressiveGenerator
from fairseq_hrt.decoding.hypothesis import Hypothesis
from fairseq_hrt.decoding.options import DecodingOptions


def test_every_field_has_fairseqs_type():
    found = Hypothesis(
        [5, 6, 2], -1.5, [-0.5, -1.0, 0.0], [1, 1, 2], 2, history=[[5], [5, 6]], alignment=[1, 0, 1]
    ).to_fairseq()
    lists = {"tokens": [5, 6, 2], "positional_scores": [-0.5, -1.0, 0.0], "token_steps": [1, 1, 2], "alignment": [1, 0, 1]}
    assert {name: found[name].tolist() for name in lists} == lists
    assert {name: found[name].dtype for name in lists} == {
        "tokens": torch.long, "positional_scores": torch.float, "token_steps": torch.long, "alignment": torch.long,
    }  # fmt: skip
    assert float(found["score"]) == -1.5 and found["steps"] == 2 and found["attention"].numel() == 0
    assert [entry["tokens"].tolist() for entry in found["history"]] == [[5], [5, 6]]


def test_what_was_not_asked_for_is_empty_or_missing():
    plain = Hypothesis([2], 0.0, [0.0], [1], 1)
    found = plain.to_fairseq()
    # fairseq-generate prints an alignment of pairs, and nothing of an empty one.
    assert found["alignment"].shape == (0, 2) and found["history"] == []
    assert "token_directions" not in found and "token_vertices" not in found
    rich = Hypothesis([5, 2], 0.0, [0.0, 0.0], [1, 1], 1, token_directions=[0, 1], token_vertices=[2, 4]).to_fairseq()
    assert rich["token_directions"].tolist() == [0, 1] and rich["token_vertices"].tolist() == [2, 4]
    found["positional_scores"].div_(2), found["tokens"].zero_()
    assert plain.tokens == [2] and plain.to_fairseq()["tokens"].tolist() == [2]


def test_the_result_is_what_fairseq_generate_needs(tiny):
    model = tiny.model()
    options = DecodingOptions(beam=3, max_len_b=6, retain_history=True)
    generator = AutoregressiveGenerator([model], tiny.dictionary(), options)
    for best in generator.generate([model], tiny.sample([4, 2])):
        for hypothesis in best:
            hypothesis["positional_scores"].div_(2)  # in place, as fairseq-generate does
            assert hypothesis["token_steps"].tolist() == list(range(1, len(hypothesis["tokens"]) + 1))
            assert hypothesis["history"][-1]["tokens"].equal(hypothesis["tokens"])
