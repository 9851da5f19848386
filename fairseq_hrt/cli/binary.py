"""Recognises files that are not UTF-8 text, whose translation would be nonsense, and refuses them.
Imports only the standard library."""

import codecs
import re
from pathlib import Path
from typing import Iterator, Optional, Tuple

from ..native.io.streams import is_stream, raw_lines, reading

# First bytes of files, what such a file is, and what to do with it.
_KINDS = (
    (b"%PDF-", "a PDF file", "extract its text first, e.g. with pdftotext"),
    (b"{\\rtf", "an RTF file", "save it as plain text first"),
    (b"\xd0\xcf\x11\xe0", "an old Office file (doc, xls, ppt)", "save it as plain text first"),
    (b"\xff\xfe", "UTF-16 text", "convert it first: iconv -f UTF-16 -t UTF-8"),
    (b"\xfe\xff", "UTF-16 text", "convert it first: iconv -f UTF-16 -t UTF-8"),
    (b"BZh", "a bzip2 file", "decompress it first; only gzip is read as it is"),
    (b"\xfd7zXZ\x00", "an xz file", "decompress it first; only gzip is read as it is"),
    (b"\x28\xb5\x2f\xfd", "a Zstandard file", "decompress it first; only gzip is read as it is"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", "unpack it first"),
    (b"\x89PNG", "a PNG picture", "give a text file"),
    (b"\xff\xd8\xff", "a JPEG picture", "give a text file"),
    (b"GIF8", "a GIF picture", "give a text file"),
    (b"\x7fELF", "a program", "give a text file"),
)
# Names in the first entries of a ZIP archive.
_IN_ZIP = (
    (b"word/", "a Word document (docx)"),
    (b"ppt/", "a presentation (pptx)"),
    (b"xl/", "a spreadsheet (xlsx)"),
)
_HEAD = 1 << 16
# Content is binary if more than one byte in MANY is zero.
MANY = 10
# Control characters, which text of no encoding has many of.
_CONTROLS = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
# Content that is not UTF-8 is also binary if more than one byte in FEW is a control character; of
# random bytes, one in ten is.
FEW = 20


def require_text(path: Path) -> None:
    """Raises an error for a file that is not UTF-8 text. Pipes and devices are not checked, since
    they can be read only once.

    The whole file is read: a long run should not fail at its last line.

    Raises:
        ValueError: the file is not text, or a line is not UTF-8; the message names its likely type,
            or the line.
        OSError: the file cannot be read.
    """
    if is_stream(path):
        return
    with reading(path) as source:
        try:
            head = source.read(_HEAD)
        except (EOFError, OSError, ValueError):
            # Damaged gzip data are reported later, by whoever reads them.
            return
    _refuse(head, str(path))
    with reading(path) as source:
        for _ in text_lines(raw_lines(source, str(path)), str(path)):
            pass


def text_lines(lines: Iterator[bytes], name: str) -> Iterator[bytes]:
    """Yields the lines of an input unchanged, each after a check that it is text. A few zero bytes
    or other control characters are allowed.

    Args:
        lines: the undecoded lines.
        name: the input's name, for the message.

    Raises:
        ValueError: the first line is binary data, or a line is not UTF-8.
    """
    for number, line in enumerate(lines, 1):
        if number == 1:
            _refuse(line, name)
        try:
            line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{name}, line {number} is not UTF-8 (byte 0x{line[error.start]:02x}): convert the"
                " text first, e.g. iconv -f WINDOWS-1252 -t UTF-8; to drop damaged bytes of UTF-8:"
                " iconv -c -f UTF-8 -t UTF-8"
            ) from None
        yield line


def _refuse(content: bytes, name: str) -> None:
    found = _kind(content)
    if found is not None:
        what, remedy = found
        raise ValueError(f"{name} is not text: it looks like {what}; {remedy}")


def _kind(content: bytes) -> Optional[Tuple[str, str]]:
    """(what the bytes look like, what the user should do) if they are not text; None if they
    are."""
    if content.startswith(b"PK\x03\x04"):
        names = [what for sign, what in _IN_ZIP if sign in content]
        if b"application/vnd.oasis.opendocument" in content[:200]:
            names = ["an OpenDocument file (odt)"]
        return (
            (names[0], "save it as plain text first")
            if names
            else ("a ZIP archive", "unpack it first")
        )
    for sign, what, remedy in _KINDS:
        if content.startswith(sign):
            return what, remedy
    zeros = content.count(b"\x00")
    # Half of the bytes of Latin letters in UTF-16 are zero.
    if zeros * 3 > len(content) > 8:
        return "UTF-16 text", "convert it first: iconv -f UTF-16 -t UTF-8"
    # Damaged text has a few zero bytes and is translated all the same.
    if zeros * MANY > len(content):
        return "binary data (it has many zero bytes)", "give a text file"
    if len(_CONTROLS.findall(content)) * FEW > len(content) and not _may_be_utf8(content):
        return "binary data (it has many control characters)", "give a text file"
    return None


def _may_be_utf8(content: bytes) -> bool:
    """Whether bytes are the beginning of a UTF-8 text; the last character may be cut off."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(content)
    except UnicodeDecodeError:
        return False
    return True
