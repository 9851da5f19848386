"""Scales that are read and drawn, and the sizes of graphs."""

from types import SimpleNamespace

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from fairseq_hrt.dag.graph_size import (
    UpsampleScale,
    vertices_from_source,
    vertices_from_target,
    vertices_of_encoded,
)
from fairseq_hrt.dag.sample import SizeRule


def test_scales():
    assert UpsampleScale.parse("8") == (8, 8) and UpsampleScale.parse("4~8").middle == 6
    lengths = torch.tensor([6, 1, 30])
    assert vertices_from_source(lengths, torch.tensor(8.0)).tolist() == [48, 8, 240]
    assert vertices_from_source(lengths + 1, torch.tensor(8.0)).tolist()[0] == 56
    assert vertices_from_source(lengths, torch.tensor(0.1, dtype=torch.double)).tolist() == [
        2,
        2,
        3,
    ]
    assert vertices_from_target(torch.tensor([0, 5]), torch.tensor(1.5)).tolist() == [2, 9]
    drawn = UpsampleScale.parse("4~8").at(torch.tensor([0.0, 0.5]))
    assert drawn.tolist() == [4, 6]


@pytest.mark.parametrize("text", ["", "0", "-3", "8~4", "a", "1~2~3", "inf"])
def test_bad_scales(text):
    with pytest.raises(ValueError, match="--dag-upsample-scale"):
        UpsampleScale.parse(text)


@given(st.integers(0, 400), st.integers(1, 800))
@example(100, 29)
@example(100, 115)
def test_sizes_are_those_of_exact_numbers(tokens, hundredths):
    """A scale such as 0.29 stands for 29 hundredths, not for the binary number next to it."""
    source, target = (hundredths * tokens) // 100, (hundredths * tokens) // 100 + 2
    scale = torch.tensor(hundredths / 100, dtype=torch.double)
    assert int(vertices_from_source(torch.tensor(tokens), scale)) == max(source, 2)
    assert int(vertices_from_target(torch.tensor(tokens), scale)) == target
    assert vertices_from_source(torch.tensor(tokens), scale).dtype == torch.long
    # Two of the tokens are <s> and </s>.
    assert int(vertices_from_source(torch.tensor(tokens + 2), scale, 2)) == target


def test_each_sentence_may_have_a_scale_of_its_own():
    scales, lengths = torch.tensor([1.0, 2.5, 4.0], dtype=torch.double), torch.tensor([5, 5, 1])
    assert vertices_from_source(lengths, scales).tolist() == [5, 12, 4]
    assert vertices_from_target(lengths, scales).tolist() == [7, 14, 6]


@pytest.mark.parametrize("count_bos, expected", [(False, [20, 8]), (True, [24, 12])])
def test_sizes_of_encoded_sentences(count_bos, expected):
    rule = SizeRule(UpsampleScale(1, 1), from_target=False, count_bos=count_bos, most=99)
    decoder = SimpleNamespace(length_head=None, rule=rule)
    memory = SimpleNamespace(lengths=torch.tensor([5, 2]))
    assert vertices_of_encoded([decoder], [memory], 4.0).tolist() == expected


def test_an_ensemble_predicts_one_size():
    """By the product of its probabilities; encoded padding is not read."""

    class Head:
        def __init__(self, *logits):
            self.logits = torch.tensor(logits)

        def __call__(self, encoded, padding):
            assert encoded.shape == (2, 3, 8)
            assert padding.tolist() == [[False] * 3, [False, False, True]]
            return self.logits.expand(2, -1)

        def words(self, log_probs, lengths):
            return log_probs.argmax(1) + lengths

    # The first model alone prefers 0, the second 2, both together 1.
    heads = Head(1.0, 0.9, -9.0), Head(-9.0, 0.9, 1.0)
    decoders = [SimpleNamespace(length_head=head) for head in heads]
    bias = torch.zeros(2, 1, 1, 3)
    bias[1, 0, 0, 2] = -torch.inf
    memory = SimpleNamespace(lengths=torch.tensor([3, 2]), encoded=torch.zeros(2, 3, 8), bias=bias)
    assert vertices_of_encoded(decoders, [memory, memory], 2.0).tolist() == [2 * 4 + 2, 2 * 3 + 2]


@given(st.floats(0, 1, exclude_max=True))
def test_drawn_scales_lie_in_their_range(uniform):
    number = torch.tensor(uniform, dtype=torch.double)
    assert 4 <= UpsampleScale(4, 8).at(number) <= 8 and UpsampleScale.parse("3").at(number) == 3


def test_the_message_shows_the_value():
    with pytest.raises(
        ValueError,
        match=(
            r"--dag-upsample-scale '8~4': give a positive number such as 8, or a range such as 4~8"
        ),
    ):
        UpsampleScale.parse("8~4")
