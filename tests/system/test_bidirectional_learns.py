"""Four words a step, two from each end, learn a small task through the real command line, in all
their decoding modes."""

import pytest

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def trained(learn_capitals):
    """A model that turns letters into capital letters; returns (data, checkpoint)."""
    return learn_capitals(
        "--task", "translation_bidirectional", "--criterion", "bidirectional_loss", "--arch",
        "bidirectional_transformer_tiny", "--bidirectional-tokens-per-step", "2",
        "--max-update", "220",
    )  # fmt: skip


@pytest.mark.parametrize(
    "options",
    [
        dict(beam="1"),
        dict(beam="4"),
        dict(beam="4", bidirectional_scoring="paper"),
        dict(
            beam="4",
            bidirectional_scoring="paper",
            bidirectional_length_penalty="gnmt",
            lenpen="0.6",
        ),
        dict(beam="4", bidirectional_length_penalty="gnmt", lenpen="0.6"),
    ],
    ids=str,
)
def test_capital_letters_are_learnt(decode, trained, options):
    """No way of scoring cuts translations: the words are there, and in their natural order."""
    right, system = decode(trained, "translation_bidirectional", max_len_b="15", **options)
    assert right >= 90
    # Four words and </s>, four a step; the released search continues until nothing better can come.
    assert system.generator.counters.decoder_calls <= (
        4 if "bidirectional_scoring" in options else 3
    )
