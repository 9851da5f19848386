"""Files that are not text: translated line by line they would give nonsense. Standard library
only."""

from pathlib import Path
from typing import Iterator, Optional, Tuple

from ..streams import is_stream, reading

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
# Of so many bytes of binary data at least one is zero.
MANY = 10


def require_text(path: Path) -> None:
    """Refuses a file whose beginning is not text; pipes and devices are left alone, for what is
    read is gone.

    Raises:
        ValueError: what it looks like.
        OSError: it cannot be read.
    """
    if is_stream(path):
        return
    with reading(path) as source:
        try:
            head = source.read(_HEAD)
        except (EOFError, OSError, ValueError):
            # Damaged gzip data: told where they are read.
            return
    _refuse(head, str(path))


def text_lines(lines: Iterator[bytes], name: str) -> Iterator[bytes]:
    """Lines as they are; a stray zero byte within text is treated as other control characters are.

    Args:
        lines: of an input.
        name: of the input, for the message.

    Raises:
        ValueError: the first one is none of a text.
    """
    for line in lines:
        _refuse(line, name)
        yield line
        break
    # Not line by line: a run that continues passes over millions of them.
    yield from lines


def _refuse(content: bytes, name: str) -> None:
    found = _kind(content)
    if found is not None:
        what, remedy = found
        raise ValueError(f"{name} is not text: it looks like {what}; {remedy}")


def _kind(content: bytes) -> Optional[Tuple[str, str]]:
    """(what it looks like, what to do) of bytes that are not text."""
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
        # Two bytes alone may begin a line of any encoding.
        if content.startswith(sign) and (len(sign) > 2 or b"\x00" in content):
            return what, remedy
    # Text that was damaged somewhere has a few; it is translated line by line, as all text is.
    if content.count(b"\x00") * MANY <= len(content):
        return None
    # Half of the bytes of Latin letters in UTF-16 are zero.
    if content.count(b"\x00") * 3 > len(content) and len(content) > 8:
        return "UTF-16 text", "convert it first: iconv -f UTF-16 -t UTF-8"
    return "binary data (it has many zero bytes)", "give a text file"
