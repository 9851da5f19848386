"""What the command-line tests of the families share: options of a tiny model, and readers of
fairseq's output."""

import io
import os
import re
import signal
import sys
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from unittest import mock

import torch
from fairseq_cli import generate, train

import fairseq_hrt.cli.main
from fairseq_hrt.compat.checkpoint_loading import allowed_types

SIZES = [
    f"--{side}-{name}"
    for side in ("encoder", "decoder")
    for name in ("layers=1", "embed-dim=16", "ffn-embed-dim=32", "attention-heads=2")
]
OPTIMIZER = (
    "--optimizer adam --lr 0.003 --max-tokens 300 --seed 3 --cpu --log-format simple --log-interval"
    " 1 --dropout 0.1 --disable-validation --no-save-optimizer-state --num-workers 0"
).split()
RESUMABLE = [option for option in OPTIMIZER if option != "--no-save-optimizer-state"]
VALIDATED = [option for option in OPTIMIZER if option != "--disable-validation"]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


def lines(output, kind):
    """``{sentence: [text after the tab, …]}`` of the lines ``H-0\\t…`` and the like."""
    found = {}
    for number, text in re.findall(rf"^{kind}-(\d+)(?:_\d+)?\t(.*)$", output, re.M):
        found.setdefault(int(number), []).append(text)
    return found


def hypotheses(output):
    """``{sentence: [translation, …]}``."""
    return {
        number: [text.split("\t")[1] for text in found]
        for number, found in lines(output, "H").items()
    }


def parameters(folder):
    """The parameters of a folder's last checkpoint."""
    with torch.serialization.safe_globals(allowed_types()):
        state = torch.load(folder / "checkpoint_last.pt", weights_only=True)["model"]
    # A buffer that fairseq never initialises; only its device is used.
    return {name: value for name, value in state.items() if not name.endswith("_float_tensor")}


def assert_same(first, second, **tolerance):
    """Equal parameters, bit by bit unless a tolerance is given."""
    assert first.keys() == second.keys()
    for name in first:
        if tolerance:
            torch.testing.assert_close(first[name], second[name], **tolerance, msg=name)
        else:
            assert torch.equal(first[name], second[name]), name


ENTRIES = {
    "fairseq-generate": generate.cli_main,
    "fairseq-train": train.cli_main,
    "fairseq-hrt": fairseq_hrt.cli.main.main,
}


def refused(name, *arguments):
    """The end of the output of a command that must fail; in this process, which saves the start of
    another."""
    output, status = io.StringIO(), 0
    with (
        redirect_stdout(output),
        redirect_stderr(output),
        mock.patch.object(sys, "argv", [name, *map(str, arguments)]),
    ):
        try:
            ENTRIES[name]()
        except SystemExit as error:
            status = error.code
    assert status == 2
    return " ".join(output.getvalue().splitlines()[-40:])


def train_until_killed(forks, *arguments):
    """Kills a training shortly after it has written its first checkpoint."""
    reading, writing = os.pipe()
    with open(reading) as output, open(os.devnull) as nothing:
        with open(writing, "w") as log:
            training = forks.start("fairseq-train", [*map(str, arguments)], [nothing, log, log])
        for line in output:
            if "Saved checkpoint" in line:
                os.kill(training.pid, signal.SIGKILL)
                break
    assert training.wait() == -signal.SIGKILL


def train_in_two_processes(forks, rendezvous, *arguments):
    """Trains with two gloo processes that meet at a file, which needs no free port."""
    with tempfile.TemporaryFile("w+") as log, open(os.devnull) as nothing:
        workers = []
        for rank in range(2):
            process = [
                "--distributed-world-size", "2", "--distributed-rank", str(rank),
                "--distributed-init-method", f"file://{rendezvous}", "--distributed-backend",
                "gloo", "--distributed-no-spawn",
            ]  # fmt: skip
            workers.append(
                forks.start("fairseq-train", [*map(str, arguments), *process], [nothing, log, log])
            )
        ends = [worker.wait(240) for worker in workers]
        log.seek(0)
        assert ends == [0, 0], log.read()[-3000:]
