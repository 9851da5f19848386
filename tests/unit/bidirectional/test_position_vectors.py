"""Vectors of slots against sinusoids of signed numbers."""

import pytest
import torch
from fairseq.modules import SinusoidalPositionalEmbedding

from fairseq_hrt.bidirectional.position_vectors import SlotPositions
from fairseq_hrt.bidirectional.slots import slot_positions
from fairseq_hrt.engine.transformer import TransformerEngine


@torch.no_grad()
def test_position_vectors(family):
    """Signed positions are sinusoids of signed numbers; more directions share the sinusoid of a
    step."""

    def sinusoid(position, width=16):
        frequencies = torch.exp(
            torch.arange(width // 2) * -(torch.log(torch.tensor(1e4)) / (width // 2 - 1))
        )
        return torch.cat([(position * frequencies).sin(), (position * frequencies).cos()]).double()

    two = family.bidirectional(directions=2).decoder.embed_positions
    for vector, position in zip(two.slot_table(9), slot_positions(9, 2).tolist()):
        torch.testing.assert_close(vector, sinusoid(position), rtol=1e-5, atol=1e-5)
    four = family.bidirectional(directions=4).decoder.embed_positions
    for vector, (step, direction) in zip(four.slot_table(9), slot_positions(9, 4).tolist()):
        torch.testing.assert_close(
            vector, sinusoid(step) + four.directions[direction], rtol=1e-5, atol=1e-5
        )
    vanilla = family.bidirectional(directions=2, vanilla_positions=True).decoder.embed_positions
    assert torch.equal(
        vanilla.slot_table(5),
        family.bidirectional(directions=1).decoder.embed_positions.slot_table(5),
    )


@torch.no_grad()
def test_more_slots_than_reserved(family):
    model = family.bidirectional(directions=2, max_target_positions=6)
    table = model.decoder.embed_positions.slot_table(8).clone()
    assert torch.equal(model.decoder.embed_positions.slot_table(50)[:8], table)
    engine = TransformerEngine(model)
    engine.embed.reserve(50)
    assert engine.embed.table.size(0) == 50


@pytest.mark.parametrize("directions", [1, 2, 4])
def test_every_row_of_a_batch_has_the_vectors_of_its_slots(directions):
    """Whatever words stand there, padding too; more slots than were computed first are computed
    when they are wanted."""
    positions = SlotPositions(8, 1, directions=directions, size=3, vanilla=False)
    vectors = positions(torch.tensor([[5, 1, 2, 7, 1], [1, 1, 1, 1, 1]]))
    assert vectors.shape == (2, 5, 8)
    for row in vectors:
        assert torch.equal(row, positions.slot_table(5))
    assert torch.equal(
        SlotPositions(8, 1, directions=1, size=9, vanilla=False).slot_table(5),
        positions.slot_table(5),
    ) == (directions == 1)


@pytest.mark.parametrize("directions, learned", [(1, False), (2, False), (4, True)])
@pytest.mark.parametrize("vanilla", [False, True])
def test_what_a_checkpoint_holds(directions, learned, vanilla):
    """The directions' vectors where there are more than two, and nothing else that an ordinary
    Transformer has not."""
    positions = SlotPositions(8, 1, directions=directions, size=3, vanilla=vanilla)
    names = {name: tuple(value.shape) for name, value in positions.named_parameters()}
    assert names == ({"directions": (directions, 8)} if learned and not vanilla else {})
    assert set(positions.state_dict()) - set(names) == set(
        SinusoidalPositionalEmbedding(8, 1, 3).state_dict()
    )


def test_one_direction_counts_as_fairseq_does():
    """From the padding's number on, for a sentence without padding."""
    positions, tokens = (
        SlotPositions(8, 1, directions=1, size=2, vanilla=False),
        torch.full((2, 6), 5),
    )
    torch.testing.assert_close(positions(tokens), SinusoidalPositionalEmbedding(8, 1, 6)(tokens))


@pytest.mark.parametrize(
    "options",
    [dict(incremental_state={}), dict(timestep=torch.tensor(3)), dict(positions=torch.ones(1, 1))],
)
def test_single_steps_of_fairseq_are_refused(options):
    positions = SlotPositions(8, 1, directions=2, size=3, vanilla=False)
    with pytest.raises(ValueError, match="whole sequences"):
        positions(torch.full((1, 1), 5), **options)
