"""Hybrid-regressive translation learns a small task through the real command line, in all its
decoding modes."""

import pytest

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def trained(learn_capitals):
    """A model that turns letters into capital letters, trained for chunk sizes 2 and 3, the last
    updates with one of four sentences still word by word; returns (data, checkpoint)."""
    return learn_capitals(
        "--task", "translation_hrt", "--criterion", "hrt_loss", "--arch", "hrt_transformer_tiny",
        "--hrt-chunk-sizes", "2,3", "--max-update", "180", "--hrt-curriculum-steps", "240",
    )  # fmt: skip


@pytest.mark.parametrize(
    "options",
    [
        dict(hrt_decode_chunk="1", beam="1"),
        dict(hrt_decode_chunk="2", beam="1"),
        dict(hrt_decode_chunk="3", beam="4", hrt_nat_beam="2"),
        dict(hrt_decode_chunk="auto", hrt_chunk_table="1:1,3:2,inf:3", beam="2"),
    ],
    ids=str,
)
def test_capital_letters_are_learnt(decode, trained, options):
    assert decode(trained, "translation_hrt", **options)[0] >= 90
