"""Text is let through whatever its bytes are; what no text has is refused."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_hrt.cli.binary import require_text, text_lines


@given(st.lists(st.binary().map(lambda line: line.replace(b"\x00", b"") + b"\n")))
def test_whatever_has_no_zero_bytes_may_be_text(lines):
    # Of another beginning than a known file's.
    lines = [b"a\n", *lines]
    assert list(text_lines(iter(lines), "x")) == lines


def test_a_stray_zero_byte_does_not_make_a_text_binary(tmp_path):
    """What is in between is translated, and nothing of it is lost."""
    lines = [b"a line of text\n", b"dam\x00aged\n", b"\x00\x00\n"]
    assert list(text_lines(iter(lines), "x")) == lines
    (tmp_path / "x").write_bytes(b"".join(lines) + b"more text\n" * 9)
    require_text(tmp_path / "x")


@given(st.binary(min_size=1, max_size=400))
def test_many_zero_bytes_are_in_no_text(data):
    content = b"a" + data + b"\x00" * (len(data) // 4 + 3)
    with pytest.raises(ValueError, match="x is not text: it looks like"):
        list(text_lines(iter([content]), "x"))


def test_pipes_are_not_looked_into(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    require_text(tmp_path / "pipe")
