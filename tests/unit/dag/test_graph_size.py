"""Scales that are read and drawn, and the sizes of graphs."""

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from fairseq_hrt.dag.graph_size import UpsampleScale, vertices_from_source, vertices_from_target


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


def test_each_sentence_may_have_a_scale_of_its_own():
    scales, lengths = torch.tensor([1.0, 2.5, 4.0], dtype=torch.double), torch.tensor([5, 5, 1])
    assert vertices_from_source(lengths, scales).tolist() == [5, 12, 4]
    assert vertices_from_target(lengths, scales).tolist() == [7, 14, 6]


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
