"""Text is let through whatever its bytes are; what no text has is refused."""

import os
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_hrt.cli.binary import require_text, text_lines


def codec(line):
    """A line as Python's codec has it; None: not UTF-8."""
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        return None


@given(st.lists(st.text(st.characters(exclude_characters="\n\x00", codec="utf-8")), max_size=9))
def test_all_text_is_let_through(texts):
    # Of another beginning than a known file's.
    lines = [b"a\n", *(text.encode() + b"\n" for text in texts)]
    assert list(text_lines(iter(lines), "x")) == lines


@given(st.lists(st.binary(max_size=6).map(lambda line: line.replace(b"\n", b"") + b"\n")))
def test_the_first_line_that_is_not_utf8_is_named(lines):
    lines, found = [b"a text\n", *lines], []
    wrong = next((number for number, line in enumerate(lines, 1) if codec(line) is None), None)
    if wrong is None:
        assert list(text_lines(iter(lines), "x")) == lines
        return
    with pytest.raises(ValueError, match=f"^x, line {wrong} is not UTF-8 "):
        found.extend(text_lines(iter(lines), "x"))


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "koi8-r", "shift-jis", "gb18030"])
def test_text_of_other_encodings_is_to_be_converted(encoding, tmp_path):
    text = {"koi8-r": "Привет", "shift-jis": "こんにちは", "gb18030": "你好"}.get(encoding, "Grüße")
    (tmp_path / "x").write_bytes(f"{text}\n{text}\n".encode(encoding))
    with pytest.raises(ValueError, match="x, line 1 is not UTF-8.*iconv"):
        require_text(tmp_path / "x")


@pytest.mark.parametrize("mark", [b"\xff\xfe", b"\xfe\xff"])
def test_utf16_without_zero_bytes(mark):
    with pytest.raises(ValueError, match="it looks like UTF-16 text"):
        list(text_lines(iter([mark + "你好".encode("utf-16-le")]), "x"))


def test_random_bytes(tmp_path):
    for seed in range(50):
        (tmp_path / "x").write_bytes(random.Random(seed).randbytes(2000))
        with pytest.raises(ValueError, match="x is not text: it looks like"):
            require_text(tmp_path / "x")


def test_a_character_across_the_end_of_what_is_looked_at(tmp_path):
    # Text with control characters, whose part ends within a character.
    (tmp_path / "x").write_bytes(b"\x1b[1m\x07" * 13107 + "é".encode() * 9)
    require_text(tmp_path / "x")


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
