"""What fairseq's command line reads of a finished translation."""

import torch

from fairseq_hrt.engine.fairseq_hypothesis import from_fairseq, to_fairseq
from fairseq_hrt.engine.generator import AutoregressiveGenerator
from fairseq_hrt.native.decoding import Hypothesis
from fairseq_hrt.native.options.values import DecodingOptions


def test_every_field_has_fairseqs_type():
    found = to_fairseq(
        Hypothesis(
            [5, 6, 2],
            -1.5,
            [-0.5, -1.0, 0.0],
            [1, 1, 2],
            2,
            history=[[5], [5, 6]],
            alignment=[1, 0, 1],
        )
    )
    # Pairs of source and target as --print-alignment prints them, without </s>.
    assert found["alignment"] == [(1, 0), (0, 1)]
    lists = {"tokens": [5, 6, 2], "positional_scores": [-0.5, -1.0, 0.0], "token_steps": [1, 1, 2]}
    assert {name: found[name].tolist() for name in lists} == lists
    assert {name: found[name].dtype for name in lists} == {
        "tokens": torch.long, "positional_scores": torch.float, "token_steps": torch.long,
    }  # fmt: skip
    assert float(found["score"]) == -1.5 and found["steps"] == 2 and found["attention"].numel() == 0
    assert [entry["tokens"].tolist() for entry in found["history"]] == [[5], [5, 6]]


def test_what_was_not_asked_for_is_empty_or_missing():
    plain = Hypothesis([2], 0.0, [0.0], [1], 1)
    found = to_fairseq(plain)
    assert found["alignment"] == [] and found["history"] == []
    assert "token_directions" not in found and "token_vertices" not in found
    rich = to_fairseq(
        Hypothesis(
            [5, 2], 0.0, [0.0, 0.0], [1, 1], 1, token_directions=[0, 1], token_vertices=[2, 4]
        )
    )
    assert rich["token_directions"].tolist() == [0, 1] and rich["token_vertices"].tolist() == [2, 4]
    found["positional_scores"].div_(2), found["tokens"].zero_()
    assert plain.tokens == [2] and to_fairseq(plain)["tokens"].tolist() == [2]


def test_the_result_is_what_fairseq_generate_needs(tiny):
    model = tiny.model()
    options = DecodingOptions(beam=3, max_len_b=6, retain_iter_history=True)
    generator = AutoregressiveGenerator([model], tiny.dictionary(), options)
    for best in generator.generate([model], tiny.sample([4, 2])):
        for hypothesis in best:
            hypothesis["positional_scores"].div_(2)  # in place, as fairseq-generate does
            assert hypothesis["token_steps"].tolist() == list(
                range(1, len(hypothesis["tokens"]) + 1)
            )
            assert hypothesis["history"][-1]["tokens"].equal(hypothesis["tokens"])


def test_there_and_back():
    one = Hypothesis([5, 2], -1.5, [-1.0, -0.5], [1, 2], 2)
    assert from_fairseq(to_fairseq(one)) == one
    # fairseq's own generators and scorers count no steps.
    stock = {name: to_fairseq(one)[name] for name in ("tokens", "score", "positional_scores")}
    assert from_fairseq(stock) == Hypothesis([5, 2], -1.5, [-1.0, -0.5], [], 2)
