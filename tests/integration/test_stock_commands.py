"""The stock commands of fairseq with its own `translation` task, from text to BLEU."""

import collections
import re
import sysconfig
from pathlib import Path

import pytest
import torch

pytestmark = pytest.mark.slow

SCRIPTS = Path(sysconfig.get_path("scripts"))
MODEL = [
    "--arch=transformer",
    "--encoder-layers=1",
    "--decoder-layers=1",
    *(f"--{side}-embed-dim=16" for side in ("encoder", "decoder")),
    *(f"--{side}-ffn-embed-dim=32" for side in ("encoder", "decoder")),
    *(f"--{side}-attention-heads=2" for side in ("encoder", "decoder")),
]
TRAINING = ["--task=translation", "--optimizer=adam", "--lr=0.01", "--max-tokens=500", "--cpu"]


def parameters(log: str) -> int:
    return int(re.search(r"num\. shared model params: ([\d,]+)", log)[1].replace(",", ""))


@pytest.fixture(scope="module")
def trained(toy_data, command, tmp_path_factory):
    """Folder with the checkpoints of two updates, and the log of that training."""
    folder = tmp_path_factory.mktemp("checkpoints")
    finished = command(
        "fairseq-train", toy_data, *TRAINING, *MODEL, "--max-update=2", "--save-dir", folder,
        "--eval-bleu", "--num-workers=1",
    )  # fmt: skip
    return folder, finished.stdout + finished.stderr


# the other commands do their work below
@pytest.mark.parametrize("name", ["eval-lm", "hydra-train"])
def test_help(command, name):
    finished = command(f"fairseq-{name}", "--help")
    assert "usage" in finished.stdout or "powered by hydra" in finished.stdout.lower()


def test_training_shows_no_warning_and_counts_parameters_once(trained):
    _, log = trained
    assert "Warning" not in log
    attention, ffn, norm = 4 * (16 * 16 + 16), (16 * 32 + 32) + (32 * 16 + 16), 2 * 16
    letters, specials = 10, 4
    pad = -(letters + specials) % 8  # dictionaries are filled up to a multiple of 8
    types = letters + specials + pad
    embeddings = 3 * types * 16  # source, target, and output
    encoder, decoder = attention + ffn + 2 * norm, 2 * attention + ffn + 3 * norm
    assert parameters(log) == embeddings + encoder + decoder


def test_training_resumes(trained, toy_data, command, tmp_path):
    folder, _ = trained
    (tmp_path / "checkpoint_last.pt").write_bytes((folder / "checkpoint_last.pt").read_bytes())
    finished = command("fairseq-train", toy_data, *TRAINING, *MODEL, "--max-update=3", "--save-dir", tmp_path)
    log = finished.stdout + finished.stderr
    assert re.search(r"Loaded checkpoint .*@ 2 updates", log)
    assert "num_updates 3" in log


def test_generate_and_score_agree(trained, toy_data, command, tmp_path):
    checkpoint = trained[0] / "checkpoint_last.pt"
    output = command("fairseq-generate", toy_data, "--path", checkpoint, "--beam=2", "--max-len-b=10", "--cpu").stdout
    assert output.count("\nH-") == 20
    for letter, column, name in (("H", 2, "system"), ("T", 1, "reference")):
        lines = [line.split("\t")[column] for line in output.splitlines() if line[:2] == f"{letter}-"]
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    scored = command("fairseq-score", "-s", tmp_path / "system", "-r", tmp_path / "reference").stdout
    generated = re.search(r"BLEU4 = .*", output)[0]
    assert re.search(r"BLEU4 = .*", scored)[0] == generated


def test_interactive_reads_standard_input(trained, toy_data, command):
    checkpoint = trained[0] / "checkpoint_last.pt"
    output = command(
        "fairseq-interactive", toy_data, "--path", checkpoint, "--cpu", "--max-len-b=5",
        stdin="a b c\nj\n",
    ).stdout  # fmt: skip
    assert "H-0" in output and "H-1" in output


def test_validate(trained, toy_data, command):
    checkpoint = trained[0] / "checkpoint_last.pt"
    finished = command(
        "fairseq-validate", toy_data, "--task=translation", "--path", checkpoint, "--cpu",
        "--max-tokens=500",
    )  # fmt: skip
    assert re.search(r"valid on .* loss [\d.]+", finished.stdout + finished.stderr)


def test_unsafe_checkpoint_stops_the_command_with_the_reason(toy_data, command, tmp_path):
    checkpoint = tmp_path / "unsafe.pt"
    torch.save({"model": collections.ChainMap()}, checkpoint)
    finished = command("fairseq-generate", toy_data, "--path", checkpoint, "--cpu", check=False)
    assert finished.returncode == 1
    assert "collections.ChainMap" in finished.stderr.splitlines()[-1]


def test_torchrun_trains_and_resumes_on_two_workers(toy_data, command, tmp_path):
    """The optimizer's state travels to the second worker through `torch.load`."""
    for updates in (2, 3):
        finished = command(
            "torchrun", "--standalone", "--nproc-per-node=2", SCRIPTS / "fairseq-train", toy_data,
            *TRAINING, *MODEL, f"--max-update={updates}", "--save-dir", tmp_path,
            "--ddp-backend=legacy_ddp", "--distributed-backend=gloo",
        )  # fmt: skip
        log = finished.stdout + finished.stderr
        assert f"num_updates {updates}" in log
    assert re.search(r"Loaded checkpoint .*@ 2 updates", log)
