"""How verbs end: one line and an exit status, whatever goes wrong."""

import argparse
import signal

import pytest
import torch

from fairseq_hrt.cli import translate
from fairseq_hrt.cli.reporting import reporting
from fairseq_hrt.loading.checkpoints import reading


@pytest.fixture
def before(number):
    """The handler that a signal has in a terminal; under nohup or in the background of a script
    some are ignored from the start."""
    handler = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
    inherited = signal.signal(number, handler)
    yield handler
    signal.signal(number, inherited)


@pytest.mark.parametrize("number, status, message", [
    (signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "ended by SIGTERM"),
    (signal.SIGHUP, 129, "ended by SIGHUP"),
])  # fmt: skip
def test_signals_end_with_one_line(tmp_path, capsys, before, number, status, message):
    with (
        pytest.raises(SystemExit) as end,
        reporting(argparse.ArgumentParser()),
        translate.writing(tmp_path / "x") as file,
    ):
        file.write(b"x")
        signal.raise_signal(number)
    assert (
        end.value.code == status
        and capsys.readouterr().err == message + "\n"
        and not list(tmp_path.iterdir())
    )
    assert signal.getsignal(number) is before


@pytest.mark.parametrize("number, status", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("error", [ValueError, AttributeError])
def test_an_error_in_the_place_of_a_signal(capsys, before, number, status, error):
    with (
        pytest.raises(SystemExit) as end,
        reporting(argparse.ArgumentParser()),
        reading("model.pt", "is damaged", keep=()),
    ):
        try:
            signal.raise_signal(number)
        finally:
            # A library's cleanup, of what was not made yet.
            raise error("an object without content")
    found = capsys.readouterr().err
    assert end.value.code == status and "damaged" not in found and found.count("\n") == 1


def test_an_error_after_a_signal_that_was_handled(capsys):
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt:
        with pytest.raises(SystemExit) as end, reporting(argparse.ArgumentParser()):
            raise ValueError("no such bundle") from None
    assert end.value.code == 2 and capsys.readouterr().err == "error: no such bundle\n"


def test_ignored_signals_stay_ignored(monkeypatch):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with reporting(argparse.ArgumentParser()):
            signal.raise_signal(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("error, message", [
    (ValueError("two\nlines"), "two lines"),
    (ValueError("\x1b[31mred\x07"), "error: \\x1b[31mred\\x07\n"),
    (ValueError("x" * 9999), "x…\n"), (OSError(2, "Gone", "\x1b[2J"), "\\x1b[2J: Gone"),
    (OSError(28, "No space", "f"), "f: No space"),
    (OSError(18, "Other device", "a", None, "b"), "a -> b: Other device"),
    (MemoryError(), "MemoryError"),
    (torch.OutOfMemoryError("CUDA out of memory"), "give a smaller batch size"),
    (BrokenPipeError(32, "Broken pipe", "fifo"), "'fifo'"),
])  # fmt: skip
def test_errors_are_one_line(capsys, error, message):
    with pytest.raises(SystemExit) as end, reporting(argparse.ArgumentParser()):
        raise error
    found = capsys.readouterr().err
    assert end.value.code == 2 and message in found and found.count("\n") == 1
    with pytest.raises(RuntimeError), reporting(argparse.ArgumentParser()):
        raise RuntimeError("a mistake of the program keeps its traceback")


def test_closed_streams(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdout", None)
    with pytest.raises(SystemExit) as end, reporting(argparse.ArgumentParser()):
        import sys

        sys.stdout.write("lost otherwise")
    assert end.value.code == 2 and "the standard output: " in capsys.readouterr().err
