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


@given(st.binary(), st.binary())
def test_a_zero_byte_is_in_no_text(before, after):
    with pytest.raises(ValueError, match="x is not text: it looks like"):
        list(text_lines(iter([b"a\n", before + b"\x00" + after]), "x"))


def test_pipes_are_not_looked_into(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    require_text(tmp_path / "pipe")
