"""Hybrid-regressive translation learns a small task through the real command line, in all its decoding modes."""

import random
import re

import pytest

pytestmark = pytest.mark.slow

LETTERS = "abcdefghijklmnop"


@pytest.fixture(scope="module")
def trained(command, tmp_path_factory):
    """A model that turns letters into capital letters, trained for chunk sizes 2 and 3; returns (data, checkpoint)."""
    folder = tmp_path_factory.mktemp("capitals")
    generator = random.Random(3)
    for split, size in (("train", 3000), ("valid", 50), ("test", 100)):
        lines = [generator.choices(LETTERS, k=generator.randint(1, 10)) for _ in range(size)]
        (folder / f"{split}.de").write_text("".join(" ".join(line) + "\n" for line in lines))
        (folder / f"{split}.en").write_text("".join(" ".join(line).upper() + "\n" for line in lines))
    data = folder / "bin"
    splits = [f"--{split}pref={folder / split}" for split in ("train", "valid", "test")]
    command("fairseq-preprocess", "-s", "de", "-t", "en", *splits, "--destdir", data)
    sides = [
        argument
        for side in ("encoder", "decoder")
        for argument in (f"--{side}-layers=1", f"--{side}-embed-dim=64", f"--{side}-ffn-embed-dim=128")
    ]
    command(
        "fairseq-train", data, "--user-dir", "fairseq_hrt", "--task", "translation_hrt", "--criterion", "hrt_loss",
        "--arch", "hrt_transformer_tiny", "--dropout=0.0", *sides,
        "--hrt-chunk-sizes", "2,3", "--optimizer", "adam", "--lr", "0.005", "--lr-scheduler", "inverse_sqrt",
        "--warmup-updates", "100", "--max-tokens", "800", "--max-update", "500", "--seed", "1", "--cpu",
        "--num-workers", "0", "--no-epoch-checkpoints", "--save-dir", folder / "model", "--log-format", "simple",
        "--share-decoder-input-output-embed", "--disable-validation",
    )  # fmt: skip
    return data, folder / "model" / "checkpoint_last.pt"


def exact_share(command, trained, *options):
    """The share of test sentences that are translated without a mistake."""
    data, checkpoint = trained
    output = command(
        "fairseq-generate", data, "--user-dir", "fairseq_hrt", "--task", "translation_hrt", "--path", checkpoint,
        "--cpu", "--batch-size", "25", *options,
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
