"""What long work tells of itself, and when."""

import gzip
import io
import os

import pytest

from fairseq_hrt.native.io import progress
from fairseq_hrt.native.io.progress import Doing, Progress, count_lines


class Screen(io.StringIO):
    def __init__(self, *, terminal):
        super().__init__()
        self.terminal = terminal

    def isatty(self):
        return self.terminal


@pytest.fixture
def shown(monkeypatch):
    """Runs work with a standard error of its own; returns what was written."""
    monkeypatch.setattr(progress, "FIRST", 0.01)
    monkeypatch.setattr(progress, "_ON_A_TERMINAL", 0.01)

    def call(work, *, terminal, **given):
        screen = Screen(terminal=terminal)
        monkeypatch.setattr("sys.stderr", screen)
        with Progress("lines", **given) as found:
            work(found)
        return screen.getvalue()

    return call


def until(screen_has):
    """Work that ends once something was shown."""

    def work(found):
        found.add(3)
        for _ in range(500):
            if screen_has(found):
                return
            found._ended.wait(0.01)

    return work


def test_nothing_is_shown_of_short_work(monkeypatch):
    screen = Screen(terminal=True)
    monkeypatch.setattr("sys.stderr", screen)
    with Progress("lines", 5) as found:
        found.add(5)
    assert screen.getvalue() == ""


def test_a_terminal_shows_one_line(shown):
    text = shown(until(lambda found: found._width), terminal=True, total=lambda: 12, done=2)
    assert text.startswith("\r5 of 12 lines, ") and text.count("\n") == 1 and text.endswith("\n")


def test_elsewhere_lines_are_added_if_they_are_wanted(shown):
    work = until(lambda found: found._width)
    text = shown(work, terminal=False, visible=True)
    assert text.startswith("3 lines, ") and "\r" not in text
    assert shown(lambda found: found._ended.wait(0.05), terminal=False) == ""
    assert shown(lambda found: found._ended.wait(0.05), terminal=True, visible=False) == ""


def test_a_standard_error_that_is_gone_ends_nothing(monkeypatch):
    monkeypatch.setattr("sys.stderr", None)
    with Progress("lines", visible=True) as found:
        found.add(1)
    assert found.done == 1


def test_texts():
    found = Progress("lines", 5000, done=200)
    assert found.text(3) == "200 of 5,000 lines, 3 s"
    found.add(1000)
    assert found.text(4) == "1,200 of 5,000 lines, 250/s, 0:15 left"
    assert found.text(2000) == "1,200 of 5,000 lines, 0.5/s, 126:40 left"
    found.add(3800)
    assert found.text(4) == "5,000 of 5,000 lines, 1,200/s"
    assert Progress("pairs").text(7) == "0 pairs, 7 s"


def test_what_callbacks_tell():
    found = Progress("sentences", done=100)
    found.reach(20, 50)
    assert found.text(2) == "120 of 150 sentences, 10/s, 0:03 left"


def test_work_of_one_piece(monkeypatch):
    assert Doing("reading the model").text(12.4) == "reading the model, 12 s"
    monkeypatch.setattr(progress, "FIRST", 0.01)
    for terminal, quiet in ((True, False), (True, True), (False, False)):
        screen = Screen(terminal=terminal)
        monkeypatch.setattr("sys.stderr", screen)
        with Doing("loading", visible=not quiet) as found:
            found._ended.wait(0.2)
        assert ("loading, 0 s" in screen.getvalue()) is (terminal and not quiet)


def test_lines_are_counted_as_they_are_read(tmp_path, monkeypatch):
    for data, count in ((b"", 0), (b"a\n\nb", 3), (b"a\n" * 3, 3), (b"a\r\nb\x0bc\n", 2)):
        (tmp_path / "x").write_bytes(data)
        assert count_lines(tmp_path / "x") == count
        (tmp_path / "x.gz").write_bytes(gzip.compress(data))
        assert count_lines(tmp_path / "x.gz") == count
        with open(tmp_path / "x") as file:
            monkeypatch.setattr("sys.stdin", file)
            assert count_lines(None) == count and os.lseek(file.fileno(), 0, os.SEEK_CUR) == 0


def test_what_cannot_be_counted(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "damaged.gz").write_bytes(gzip.compress(b"a\n" * 999)[:-9])
    for path in (tmp_path / "pipe", tmp_path / "damaged.gz", tmp_path / "missing"):
        assert count_lines(path) is None
    with open(tmp_path / "damaged.gz") as file:
        for stdin in (file, None, io.StringIO("a\n")):
            monkeypatch.setattr("sys.stdin", stdin)
            assert count_lines(None) is None
