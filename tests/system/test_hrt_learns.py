"""Hybrid-regressive translation learns a small task through the real command line, in all its
decoding modes."""

import pytest

pytestmark = pytest.mark.slow

LETTERS = "abcdefghijklmnop"


@pytest.fixture(scope="module")
def trained(learn_capitals):
    """A model that turns letters into capital letters, trained for chunk sizes 2 and 3; returns
    (data, checkpoint)."""
    return learn_capitals(
        LETTERS, 10, {"train": 3000, "valid": 50, "test": 100}, "--task", "translation_hrt",
        "--criterion", "hrt_loss", "--arch", "hrt_transformer_tiny", "--hrt-chunk-sizes", "2,3",
        "--warmup-updates", "100", "--max-tokens", "800", "--max-update", "500",
    )  # fmt: skip


@pytest.mark.parametrize(
    "options",
    [
        dict(hrt_decode_chunk="1", beam="1"),
        dict(hrt_decode_chunk="2", beam="1"),
        dict(hrt_decode_chunk="3", beam="4", hrt_nat_beam="2"),
        dict(hrt_decode_chunk="auto", hrt_chunk_table="3:1,6:2,inf:3", beam="2"),
    ],
    ids=str,
)
def test_capital_letters_are_learnt(decode, trained, options):
    assert decode(trained, "translation_hrt", **options)[0] >= 90
