"""Token and position vectors, and the table of positions that grows."""

import weakref

import pytest
import torch
from fairseq.modules import LearnedPositionalEmbedding, SinusoidalPositionalEmbedding
from torch import nn

from fairseq_hrt.engine.embedding import PackedEmbedding

PAD = 1
TOKENS = torch.tensor([[4, 5, 6]])


def embedding(positions=None, **changes):
    torch.manual_seed(0)
    return PackedEmbedding(
        torch.randn(9, 4), **{**dict(scale=2.0, positions=positions, pad=PAD, norm=None), **changes}
    )


@pytest.mark.parametrize("kind", ["learned", "sinusoidal", "none"])
@pytest.mark.parametrize("projected", [False, True])
def test_scaled_words_and_positions(kind, projected):
    width = 6 if projected else 4
    modules = {
        "learned": LearnedPositionalEmbedding(12, width, PAD),
        "sinusoidal": SinusoidalPositionalEmbedding(width, PAD),
        "none": None,
    }
    projection = torch.randn(6, 4) if projected else None
    packed = embedding(modules[kind], projection=projection)
    packed.reserve(7)
    words = 2.0 * packed.tokens[TOKENS]
    if projected:
        words = words @ projection.t()
    with torch.no_grad():
        table = {"none": lambda: torch.zeros(12, width),
                 "learned": lambda: modules["learned"].weight,
                 "sinusoidal": lambda: SinusoidalPositionalEmbedding.get_embedding(12, width,
                                                                                   PAD)}[kind]()  # fmt: skip
        torch.testing.assert_close(packed(TOKENS, None), words + table[PAD + 1 : PAD + 4])
        torch.testing.assert_close(
            packed(TOKENS, torch.tensor([[2, 6, 0]])),
            words + table[PAD + 1 :][torch.tensor([[2, 6, 0]])],
        )
        norm = nn.LayerNorm(width)
        norm.weight.uniform_()
        normalised = embedding(modules[kind], projection=projection, norm=norm)
        normalised.reserve(3)
        torch.testing.assert_close(normalised(TOKENS, None), norm(words + table[PAD + 1 : PAD + 4]))


def test_the_table_grows_and_never_shrinks():
    packed = embedding(SinusoidalPositionalEmbedding(4, PAD))
    with torch.inference_mode():
        packed.reserve(3)
    first = packed.table
    assert len(first) == 3 and not first.is_inference(), "a training may follow"
    packed.reserve(2)
    assert packed.table is first
    packed.reserve(5)
    assert len(packed.table) >= 5 and torch.equal(packed.table[: len(first)], first)
    none = embedding()
    none.reserve(100)
    assert none.table is None


def test_earlier_tables_are_kept():
    """A recorded CUDA graph reads the table that was there when it was recorded."""
    packed = embedding(SinusoidalPositionalEmbedding(4, PAD))
    packed.reserve(3)
    earlier, rows = weakref.ref(packed.table), packed.table.clone()
    packed.reserve(50)
    kept = earlier()
    assert kept is not None and kept is not packed.table and torch.equal(kept, rows)


def test_the_tables_that_are_kept_stay_few():
    """Sources are read in the order of their lengths."""
    packed = embedding(SinusoidalPositionalEmbedding(4, PAD))
    for count in range(3, 200):
        packed.reserve(count)
    assert sum(map(len, packed._former)) <= len(packed.table) <= 2 * 200


@pytest.mark.parametrize(
    "side, option",
    [
        ("source", "split the sentence .*--max-source-positions"),
        ("target", "lower --max-len-b .*--max-target"),
    ],
)
def test_learned_positions_end(side, option):
    packed = embedding(LearnedPositionalEmbedding(3 + PAD + 1, 4, PAD), side=side)
    packed.reserve(3)
    with pytest.raises(
        ValueError, match=f"position 3 is needed but the model has learned 3 positions; {option}"
    ):
        packed.reserve(4)


class Slots(nn.Module):
    """A module whose table is made of its weights, for as many slots as are asked for."""

    def __init__(self):
        super().__init__()
        self.step = nn.Parameter(torch.ones(4))

    def slot_table(self, count):
        return torch.arange(count).unsqueeze(1) * self.step


def test_a_table_of_its_own_follows_its_weights():
    module = Slots()
    packed = embedding(module)
    packed.refresh()
    assert packed.table is None
    packed.reserve(3)
    assert packed.table.tolist() == [[0.0] * 4, [1.0] * 4, [2.0] * 4]
    with torch.no_grad():
        module.step.mul_(3)
    packed.reserve(3)
    assert packed.table[1].tolist() == [1.0] * 4
    packed.refresh()
    assert packed.table.tolist() == [[0.0] * 4, [3.0] * 4, [6.0] * 4]


@pytest.mark.parametrize("projected", [False, True])
def test_a_word_of_zeros(projected):
    projection = torch.randn(4, 4) if projected else None
    positions = SinusoidalPositionalEmbedding(4, PAD)
    packed, plain = (embedding(positions, projection=projection, zero=zero) for zero in (5, None))
    for one in (packed, plain):
        one.reserve(3)
    before = packed.tokens.clone()
    found, expected = packed(TOKENS, None), plain(TOKENS, None)
    assert found[0, 1].equal(packed.table[1]) and not found[0, 1].equal(expected[0, 1])
    assert found[:, ::2].equal(expected[:, ::2]) and packed.tokens.equal(before)
