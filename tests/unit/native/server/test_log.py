"""A log that nobody reads: whoever writes to it continues, and missing lines are reported."""

import logging
import os
import re
import select
import sys
import threading
import warnings

import pytest

from fairseq_hrt.native.server import log
from fairseq_hrt.native.server.log import BackgroundHandler, write_in_background

LINES = 4000
SECONDS = 30


@pytest.fixture
def pipe():
    """Both ends; what is left open is closed by the end of the process, as a thread may still
    write."""
    reading, writing = os.pipe()
    yield reading, writing
    os.close(reading)


@pytest.fixture
def speaker():
    """A log of its own."""
    logger = logging.Logger("speaker")
    yield logger
    logger.handlers.clear()


def said(logger, lines=LINES):
    """Whether so much was said; the thread waits for ever where the handler does."""
    thread = threading.Thread(
        target=lambda: [logger.info("%05d %s", number, "x" * 100) for number in range(lines)],
        daemon=True,
    )
    thread.start()
    thread.join(SECONDS)
    return not thread.is_alive()


def until(reading, pattern):
    """What is written until a line is as it should be."""
    found = b""
    while not re.search(pattern, found):
        assert select.select([reading], [], [], SECONDS)[0], found[-200:]
        found += os.read(reading, 1 << 16)
    return found.decode()


def test_nobody_reads(pipe, speaker):
    reading, writing = pipe
    speaker.addHandler(BackgroundHandler(writing))
    assert said(speaker)
    numbers, missing = [], 0
    while len(numbers) + missing < LINES:
        for line in until(reading, rb"\n$").splitlines():
            told = re.fullmatch(r"(\d+) lines are missing from the log: nobody read it", line)
            if told:
                missing += int(told[1])
            else:
                numbers.append(int(line.split()[0]))
    # In their order; the rest is counted.
    assert numbers == sorted(set(numbers)) and numbers[: log.MOST_LINES] == list(
        range(log.MOST_LINES)
    )
    assert missing > 1000 and len(numbers) + missing == LINES
    # What is said later is written, and nothing told twice.
    speaker.info("later")
    assert until(reading, b"later\n") == "later\n"


def test_the_end_does_not_wait_for_ever(pipe, speaker, monkeypatch):
    reading, writing = pipe
    monkeypatch.setattr(log, "LAST_SECONDS", 0.05)
    handler = BackgroundHandler(writing)
    speaker.addHandler(handler)
    assert said(speaker)
    handler.flush()
    # Where somebody reads, everything has been written by then.
    until(reading, rb"missing.*\n")
    monkeypatch.setattr(log, "LAST_SECONDS", SECONDS)
    speaker.info("last")
    handler.flush()
    assert os.read(reading, 1 << 16) == b"last\n"


def test_a_reader_that_has_gone(pipe, speaker):
    reading, writing = os.pipe()
    handler = BackgroundHandler(writing)
    speaker.addHandler(handler)
    os.close(reading)
    assert said(speaker, 10)
    handler.flush()
    # Somebody else listens now: what was lost is told behind the next line.
    os.dup2(pipe[1], writing)
    speaker.info("again")
    assert (
        until(pipe[0], rb"missing.*\n")
        == "again\n10 lines are missing from the log: nobody read it\n"
    )


def test_standard_error_is_written_by_a_thread(monkeypatch, capfd):
    root = logging.getLogger()
    kept, plain = logging.NullHandler(), logging.StreamHandler(sys.stderr)
    plain.setFormatter(logging.Formatter("<%(message)s>"))
    plain.setLevel(logging.WARNING)
    monkeypatch.setattr(root, "handlers", [kept, plain])
    write_in_background()
    try:
        first, handler = root.handlers
        assert first is kept and isinstance(handler, BackgroundHandler)
        root.warning("caf\u00e9 \udc80")
        root.info("not this")
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            logging.captureWarnings(False)
            logging.captureWarnings(True)
            warnings.warn("beware", stacklevel=1)
        handler.flush()
        found = capfd.readouterr().err
        assert (
            found.startswith("<caf\u00e9 \\udc80>\n")
            and "beware" in found
            and "not this" not in found
        )
    finally:
        logging.captureWarnings(False)
