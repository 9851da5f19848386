"""Real processes that are killed, full disks, closed streams, and lines of any bytes; models are
tiny and untrained.

FAIRSEQ_HRT_KILLS (3) and FAIRSEQ_HRT_FUZZED_LINES (80) ask for more: 30 kills of each verb, 10,000
lines for each family.
"""

import json
import logging
import os
import random
import shlex
import signal
import stat
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from command_line import ENVIRONMENT
from native_bundles import with_runtime
from test_hub_cli import distilled, fuzzed_lines
from tiny_models import FAMILIES, LETTERS, write_bundle, write_checkpoint

from fairseq_hrt.cli.main import main

pytestmark = pytest.mark.slow
KILLS = int(os.environ.get("FAIRSEQ_HRT_KILLS", "3"))
FUZZED = int(os.environ.get("FAIRSEQ_HRT_FUZZED_LINES", "80"))
SIGNALS = [signal.SIGKILL, signal.SIGTERM, signal.SIGINT]
FAMILY_SEEDS = {family: number for number, family in enumerate(FAMILIES)}


# With the real child process for the program that distill starts, not a fork.
KILLED = """
import importlib, sys
from fairseq_hrt.cli import child_process
importlib.reload(child_process)
from fairseq_hrt.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def start(forks, tmp_path):
    """Starts the verb in a process that has its imports behind it: a second passes between two
    kills, not five.

    ``whole``: it will not be killed, and takes a fork for the program that works for it.
    """
    script = tmp_path / "killed.py"
    script.write_text(KILLED)

    def run(*arguments, whole=False):
        program = ["fairseq-hrt"] if whole else ["python", str(script)]
        with open(os.devnull, "r+b") as nothing, open(tmp_path / "errors", "ab") as errors:
            streams = [nothing, nothing, errors]
            return forks.start(
                program[0], [*program[1:], *map(str, arguments)], streams, cwd=str(tmp_path)
            )

    return run


def finish(process):
    assert process.wait(300) == 0


def kill_at_random(start, arguments, generator, longest, errors):
    """Starts the command KILLS times and kills it each time; returns how it ended. ``errors`` is
    the file of its messages."""
    ends = []
    for number in range(KILLS):
        process = start(*arguments)
        time.sleep(generator.uniform(0.05, longest))
        with suppress(ProcessLookupError):
            os.kill(process.pid, SIGNALS[number % len(SIGNALS)])
        ends.append(process.wait(60))
    # Killed before the command had begun (negative), while it worked, or after it was done.
    expected = {0, -signal.SIGKILL, 143, 130, -signal.SIGTERM, 1, -signal.SIGINT}
    assert set(ends) <= expected, (ends, errors.read_text()[-2000:])
    return ends


def test_translate_killed_at_any_moment(start, tmp_path):
    write_bundle(tmp_path / "bundle", "autoregressive")
    generator, count = random.Random(11), 40 if KILLS < 30 else 400
    for name in ("a.txt", "b.txt"):
        lines = (
            "".join(generator.choices(LETTERS + " ", k=generator.randint(0, 30)))
            for _ in range(count)
        )
        (tmp_path / name).write_text("\n".join(lines))
    arguments = [
        "translate",
        tmp_path / "bundle",
        tmp_path / "a.txt",
        tmp_path / "b.txt",
        "--json",
        "--batch-size",
        "2",
        "--threads",
        "1",
    ]
    begun = time.monotonic()
    finish(start(*arguments, "--output", tmp_path / "whole"))
    longest = time.monotonic() - begun
    resumed = [*arguments, "--resume", "--output", tmp_path / "parts"]
    ends = kill_at_random(start, resumed, generator, longest, tmp_path / "errors")
    assert KILLS < 30 or sum(end != 0 for end in ends) >= 3
    finish(start(*resumed))
    found = {
        place: {path.name: path.read_bytes() for path in (tmp_path / place).iterdir()}
        for place in ("whole", "parts")
    }
    assert found["whole"] == found["parts"] and set(found["whole"]) == {"a.txt", "b.txt"}
    assert all(data.count(b"\n") == count for data in found["whole"].values())


def test_distill_killed_at_any_moment(start, toy_data, tmp_path):
    checkpoint = write_checkpoint(tmp_path / "teacher.pt", toy_data, "autoregressive")
    system = f"name=t,path={checkpoint},task=translation_autoregressive,beam=2,max_len_b=20"
    arguments = [
        "distill",
        toy_data,
        "--system",
        system,
        "--block",
        "8",
        "--max-tokens",
        "60",
        "--threads",
        "1",
    ]
    begun = time.monotonic()
    finish(start(*arguments, "--out", tmp_path / "whole", whole=True))
    longest = time.monotonic() - begun
    parts, errors = [*arguments, "--out", tmp_path / "parts"], tmp_path / "errors"
    kill_at_random(start, parts, random.Random(12), longest, errors)
    # Killed while another program works for it, which must not continue into what the next run
    # makes.
    process = start(*arguments, "--out", tmp_path / "parts")
    deadline = time.monotonic() + 300
    while not list((tmp_path / "parts").glob("data-bin.*")) and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait(60) == -signal.SIGKILL
    both = [start(*arguments, "--out", tmp_path / "parts", whole=True) for _ in range(2)]
    for process in both:
        finish(process)
    assert distilled(tmp_path / "parts") == distilled(tmp_path / "whole")
    # A teacher of the same name that was trained on.
    write_checkpoint(checkpoint, toy_data, "autoregressive", seed=2)
    process = start(*arguments, "--out", tmp_path / "parts")
    assert process.wait(60) == 2 and distilled(tmp_path / "parts") == distilled(tmp_path / "whole")


@pytest.mark.parametrize("family", FAMILIES)
def test_no_line_is_lost(family, tmp_path, capfd):
    # Commands that ran before have left handlers of streams that are closed.
    logging.basicConfig(force=True)
    write_bundle(tmp_path / "bundle", family)
    lines = fuzzed_lines(FUZZED, seed=FAMILY_SEEDS[family])
    (tmp_path / "x").write_bytes(b"\n".join(lines) + b"\n")
    assert (
        main(
            [
                "translate",
                str(tmp_path / "bundle"),
                str(tmp_path / "x"),
                "--json",
                "--output",
                str(tmp_path / "y"),
            ]
        )
        == 0
    )
    found = [json.loads(line) for line in (tmp_path / "y").read_bytes().split(b"\n")[:-1]]
    assert len(found) == len(lines) and "Traceback" not in capfd.readouterr().err
    for line, translation in zip(lines, found):
        assert translation["source"] == line.decode().rstrip("\r")
        assert "\n" not in translation["text"] and (
            line.strip(b" \t\r\0") or translation["text"] == ""
        )


@pytest.mark.skipif(sys.platform != "linux", reason="limits of Linux")
def test_what_the_shell_hands_over(forks, tmp_path):
    """A full disk, a closed stream and process substitution, through the real command line; where a
    fork does not have the stream, the command starts from nothing: with the native engine, which
    imports no PyTorch."""
    with_runtime(tmp_path / "bundle", "autoregressive")
    (tmp_path / "x").write_text("a b\nc\n")
    full = tmp_path / "full"
    try:
        os.mknod(full, stat.S_IFCHR | 0o666, os.makedev(1, 7))
        open(full, "wb").close()
    except OSError:
        full = Path("/dev/full")
    fork = shlex.join(forks.command("fairseq-hrt"))
    translate = f"{sys.executable} -m fairseq_hrt translate bundle --threads 1"
    script = {
        f"{fork} translate bundle x > {full}": (2, "the standard output: No space left on device"),
        f"{translate} x >&-": (2, "the standard output is closed"),
        f"{fork} doctor > {full}": (
            2,
            "the standard output: No space left on device",
        ),
        f"{fork} --options > {full}": (
            2,
            "the standard output: No space left on device",
        ),
        f"{fork} --user-dir > {full}": (
            2,
            "the standard output: No space left on device",
        ),
        f"{translate} <(cat x) --output >(cat > y); s=$?; sleep 0.2; wc -l < y >&2; exit $s": (
            0,
            "2\n",
        ),
    }
    root = str(Path(__file__).resolve().parents[2])
    started = [
        subprocess.Popen(
            ["bash", "-c", line], cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, env={**ENVIRONMENT, "PYTHONPATH": root},
        )
        for line in script
    ]  # fmt: skip
    for process, (line, (status, message)) in zip(started, script.items()):
        error = process.communicate(timeout=120)[1]
        # Before its end a translation tells its engine.
        lines = [one for one in error.splitlines() if not one.startswith("decoded with ")]
        assert process.returncode == status and message in error and len(lines) == 1, (
            line,
            error,
        )
    if full.parent == tmp_path:
        assert full.is_char_device()
