"""Hybrid-regressive translation learns a small task through the real command line, in all its
decoding modes."""

import re

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


def exact_share(command, trained, *options):
    """The share of test sentences that are translated without a mistake."""
    data, checkpoint = trained
    output = command(
        "fairseq-generate", data, "--user-dir", "fairseq_hrt", "--task", "translation_hrt",
        "--path", checkpoint, "--cpu", "--batch-size", "25", *options,
    ).stdout  # fmt: skip
    targets = dict(re.findall(r"^T-(\d+)\t(.*)$", output, re.M))
    hypotheses = dict(re.findall(r"^H-(\d+)\t\S+\t(.*)$", output, re.M))
    assert len(targets) == 100
    return sum(hypotheses[number] == target for number, target in targets.items()) / len(targets)


@pytest.mark.parametrize(
    "options",
    [
        ("--hrt-decode-chunk", "1", "--beam", "1"),
        ("--hrt-decode-chunk", "2", "--beam", "1"),
        ("--hrt-decode-chunk", "3", "--beam", "4", "--hrt-nat-beam", "2"),
        ("--hrt-decode-chunk", "auto", "--hrt-chunk-table", "3:1,6:2,inf:3", "--beam", "2"),
    ],
)
def test_capital_letters_are_learnt(command, trained, options):
    assert exact_share(command, trained, *options) >= 0.9
