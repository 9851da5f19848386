"""What the command-line tests of the families share: options of a tiny model, and readers of fairseq's output."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import torch

from fairseq_hrt.compat.checkpoint_loading import allowed_types

SIZES = [
    f"--{side}-{name}"
    for side in ("encoder", "decoder")
    for name in ("layers=1", "embed-dim=16", "ffn-embed-dim=32", "attention-heads=2")
]
OPTIMIZER = (
    "--optimizer adam --lr 0.003 --max-tokens 300 --seed 3 --cpu --log-format simple --log-interval 1 --dropout 0.1 "
    "--disable-validation --no-save-optimizer-state --num-workers 0"
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
    return {number: [text.split("\t")[1] for text in found] for number, found in lines(output, "H").items()}


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


def refused(command, *arguments):
    """The end of the output of a command that must fail."""
    result = command(*arguments, check=False)
    assert result.returncode
    # A thread of PyTorch's loader may add some lines when the process ends.
    return " ".join((result.stdout + result.stderr).splitlines()[-40:])


def train_until_killed(*arguments):
    """Kills a training shortly after it has written its first checkpoint."""
    program = [str(Path(sys.executable).with_name("fairseq-train")), *map(str, arguments)]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=ENVIRONMENT) as process:
        for line in process.stdout:
            if "Saved checkpoint" in line:
                process.send_signal(signal.SIGKILL)
                break
    assert process.returncode == -signal.SIGKILL


def train_in_two_processes(rendezvous, *arguments):
    """Trains with two gloo processes that meet at a file, which needs no free port."""
    program = Path(sys.executable).with_name("fairseq-train")
    workers = [
        subprocess.Popen(
            [
                str(program), *map(str, arguments), "--distributed-world-size", "2", "--distributed-rank", str(rank),
                "--distributed-init-method", f"file://{rendezvous}", "--distributed-backend", "gloo",
                "--distributed-no-spawn",
            ],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=ENVIRONMENT,
        )
        for rank in range(2)
    ]  # fmt: skip
    outputs = [worker.communicate(timeout=240)[0] for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0], outputs[0][-3000:]
