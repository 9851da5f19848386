"""The repair `one-line-errors`: refusals of this package are one line, all else a traceback."""

import fileinput
import itertools
import queue
import types
from argparse import Namespace

import pytest
import torch
from fairseq.data.iterators import BackgroundConsumer

from fairseq_hrt.compat import one_line_errors
from fairseq_hrt.compat.mismatched_weights import MismatchedWeightsError
from fairseq_hrt.compat.one_line_errors import explained
from fairseq_hrt.native.options.values import DecodingOptions


def refused():
    DecodingOptions(beam=0)


def replaced():
    """As fairseq's trainer replaces a model's message."""
    try:
        refused()
    except ValueError:
        raise Exception("please ensure that the architectures match")  # noqa: B904


def caused():
    try:
        refused()
    except ValueError as error:
        raise RuntimeError("something else") from error


def hidden():
    try:
        refused()
    except ValueError:
        raise RuntimeError("something else") from None


def broken():
    torch.zeros(2) + torch.zeros(3)


def foreign():
    raise ValueError("of another package")


def ended_by(monkeypatch, main, name="fairseq_cli.train", function="cli_main"):
    module = types.ModuleType(name)
    setattr(module, function, main)
    one_line_errors.REPAIR.apply(module)
    return getattr(module, function)


@pytest.mark.parametrize("main", [refused, replaced, caused])
@pytest.mark.parametrize("command", ["train", "generate", "interactive", "validate"])
def test_a_refusal_is_one_line(monkeypatch, capsys, main, command):
    with pytest.raises(SystemExit) as ended:
        ended_by(monkeypatch, main, f"fairseq_cli.{command}")()
    assert ended.value.code == 2
    assert capsys.readouterr().err == (
        "error: --beam 0: at least one hypothesis has to be kept; --beam 1 is greedy search\n"
    )


@pytest.mark.parametrize("room", [1, 0])
def test_threads_that_load_batches_are_stopped(room):
    """Otherwise they are stopped in PyTorch's code while Python shuts down, which aborts."""
    consumer = BackgroundConsumer(queue.Queue(room), itertools.count(), 10**9, None)
    consumer.daemon = True
    consumer.start()
    with pytest.raises(SystemExit) as ended:
        ended_by(None, refused)()
    assert ended.value.code == 2 and not consumer.is_alive()


def test_a_missing_text_is_one_line(monkeypatch, capsys, tmp_path):
    """fairseq-interactive reads it by fileinput."""

    def read():
        with fileinput.input([tmp_path / "none"], openhook=fileinput.hook_encoded("utf-8")) as file:
            next(file)

    with pytest.raises(SystemExit):
        ended_by(monkeypatch, read, "fairseq_cli.interactive")()
    assert capsys.readouterr().err == f"error: {tmp_path}/none: No such file or directory\n"


def test_a_missing_plugin_is_named_as_the_user_did(monkeypatch):
    def missing(args):
        raise FileNotFoundError("/somewhere/plugin")

    imported = ended_by(monkeypatch, missing, "fairseq.utils", "import_user_module")
    with pytest.raises(FileNotFoundError) as refused:
        imported(Namespace(user_dir="plugin"))
    assert explained(refused.value).startswith(
        "--user-dir plugin: there is no such folder; fairseq-"
    )


@pytest.mark.parametrize("main", [hidden, broken, foreign])
def test_other_errors_keep_their_traceback(monkeypatch, main):
    with pytest.raises((RuntimeError, ValueError)):
        ended_by(monkeypatch, main)()


def test_the_level_of_the_log_keeps_tracebacks(monkeypatch):
    monkeypatch.setenv("LOGLEVEL", "debug")
    with pytest.raises(ValueError, match="--beam 0"):
        ended_by(monkeypatch, refused)()


def test_another_process_passes_its_line_on(monkeypatch):
    """What reaches the process that started it is the text of a traceback."""
    worker = ended_by(monkeypatch, replaced, "fairseq.distributed.utils", "distributed_main")
    with pytest.raises(one_line_errors.Refusal) as raised:
        worker()
    text = (
        "\n\n-- Process 1 terminated with the following error:\nTraceback (most recent call last):\n"
        f"  File ...\n{one_line_errors.__name__}.Refusal: {raised.value}\n"
    )
    error = torch.multiprocessing.ProcessRaisedException(text, 1, 2)
    assert explained(error) == str(raised.value)
    other = torch.multiprocessing.ProcessRaisedException("...\nKeyError: 'x'\n", 1, 2)
    assert explained(other) is None


def test_files_are_named(tmp_path):
    from fairseq.checkpoint_utils import load_model_ensemble_and_task
    from fairseq.data import Dictionary

    for read in (
        lambda: load_model_ensemble_and_task([str(tmp_path / "missing.pt")]),
        lambda: Dictionary.load(str(tmp_path / "missing.pt")),
    ):
        with pytest.raises(OSError) as raised:
            read()
        assert "missing.pt" in explained(raised.value)


def test_messages_are_printable():
    try:
        raise MismatchedWeightsError("one\ntwo \x1b[2J")
    except MismatchedWeightsError as error:
        # Raised here, not by the package.
        assert explained(error) is None
    assert one_line_errors._line(ValueError("one\ntwo \x1b[2J")) == r"one two \x1b[2J"
