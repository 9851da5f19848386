"""Reads JSON and YAML of unknown origin safely: of limited size, as plain data, without tags or
references."""

import os
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

from ..io.escaping import shown
from ..io.json_objects import json_object

# Name of the full installation, for messages.
WHOLE = "the whole plugin, fairseq_hrt"
# Largest file; a vocabulary of a million long words is smaller.
LARGEST = 64 * 1024 * 1024
# Deepest nesting of YAML; model descriptions have two levels.
DEEPEST = 16
# Characters that YAML does not allow or takes for ends of lines, and Marian writes as they are;
# they are parsed as others, of planes for private use, that no vocabulary has.
_PLAIN = {
    code: 0xF0000 + code
    for code in (*range(1, 0x20), *range(0x7F, 0xA0), 0x2028, 0x2029, 0xFEFF, 0xFFFE, 0xFFFF)
    if chr(code) not in "\t\n\r"
}
_AS_WRITTEN = {other: code for code, other in _PLAIN.items()}


def read_bytes(path: Path, largest: int = LARGEST) -> bytes:
    """Reads a regular file.

    Raises:
        ValueError: the file has more than ``largest`` bytes, is missing, or is not a regular file.
        OSError: the file cannot be read.
    """
    if not path.is_file():
        raise ValueError(
            f"{path} is {'not a plain file' if path.exists() else 'missing'}: put the model's file"
            " there"
        )
    with open(path, "rb") as file:
        # Not read(largest + 1), which would allocate that much for a small file.
        content = file.read(min(largest, os.fstat(file.fileno()).st_size) + 1)
    if len(content) > largest:
        raise ValueError(
            f"{path} has more than {largest} bytes: files of this kind are smaller, give the right"
            " one"
        )
    return content


def read_text(path: Path) -> str:
    """Reads a text file in UTF-8; for errors see :func:`read_bytes` and :func:`decoded`."""
    return decoded(read_bytes(path), path)


def decoded(content: bytes, path: Path) -> str:
    """Decodes UTF-8, with or without a byte order mark. Raises ValueError, which names ``path``, if
    ``content`` is not UTF-8."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path} is not text in UTF-8: {error.reason} at byte {error.start}"
        ) from None


def read_json(path: Path) -> Dict[str, Any]:
    """Reads a file with a JSON object; ValueError if it holds something else or duplicate keys."""
    try:
        return json_object(read_text(path))
    except ValueError as error:
        raise ValueError(f"{path} cannot be read as JSON: {error}") from None


class _Composer:
    """Builds documents of dictionaries, lists and strings from the events of a YAML parser, without
    recursion."""

    def __init__(self) -> None:
        self.documents: List[Any] = []
        # Open lists and dictionaries; and for each dictionary the key whose value comes next.
        self.open: List[Any] = []
        self.keys: List[Optional[str]] = []

    def take(self, event: Any) -> None:
        """Adds what an event of the YAML parser describes to the present document; raises
        ValueError for anchors, aliases, tags and more than DEEPEST levels."""
        import yaml  # type: ignore[import-untyped]

        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise ValueError("it has anchors or aliases (& or *): write their values out")
        if getattr(event, "tag", None) is not None:
            raise ValueError(f"it has the tag {shown(event.tag)}: remove the tag")
        if isinstance(event, yaml.ScalarEvent):
            self.add(event.value.translate(_AS_WRITTEN))
        elif isinstance(event, yaml.CollectionStartEvent):
            if len(self.open) == DEEPEST:
                raise ValueError(f"it is nested too deeply, more than {DEEPEST} levels")
            value: Any = {} if isinstance(event, yaml.MappingStartEvent) else []
            self.add(value)
            self.open.append(value)
            self.keys.append(None)
        elif isinstance(event, yaml.CollectionEndEvent):
            self.open.pop()
            self.keys.pop()

    def add(self, value: Any) -> None:
        """Adds a key or value to the innermost list or dictionary that is open; without one,
        ``value`` begins a document."""
        if not self.open:
            self.documents.append(value)
        elif isinstance(self.open[-1], list):
            self.open[-1].append(value)
        elif self.keys[-1] is not None:
            self.open[-1][self.keys[-1]], self.keys[-1] = value, None
        elif not isinstance(value, str):
            raise ValueError("a key is a list or dictionary; it must be a string")
        elif value in self.open[-1]:
            raise ValueError(f"the key {shown(value)} appears twice: keep one of the two")
        else:
            self.keys[-1] = value


def parse_yaml(text: str, path: Path) -> Any:
    """Parses YAML into dictionaries, lists and strings; scalars stay strings (``"0.6"``,
    ``"true"``, ``""``).

    Tags, anchors, aliases and several documents, which Marian does not write, are refused. ``path``
    is the file, for messages.

    Raises:
        ValueError: the text is not such YAML, or PyYAML is not installed.
    """
    try:
        import yaml
    except ImportError as error:
        raise ValueError("Marian's models need the package PyYAML: pip install PyYAML") from error
    composer = _Composer()
    try:
        # Events come from libyaml where PyYAML has it.
        for event in yaml.parse(
            text.translate(_PLAIN), Loader=getattr(yaml, "CBaseLoader", yaml.BaseLoader)
        ):
            composer.take(event)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ValueError(
            f"{path} cannot be read as YAML: {' '.join(str(error).split())[:300]}"
        ) from None
    if len(composer.documents) != 1:
        raise ValueError(
            f"{path} cannot be read as YAML: it holds {len(composer.documents)} documents; leave"
            " only one there"
        )
    return composer.documents[0]


def refuse_links_outside(folder: Path, source: Path) -> None:
    """Raises ValueError if a folder of unknown origin has a link to a file outside it, since that
    private file would become part of a bundle.

    In Hugging Face's cache, files of ``snapshots/COMMIT`` are links into ``blobs`` beside
    ``snapshots``; these are allowed.

    Args:
        folder: the model's folder.
        source: the path that the user named, which may be such a link.
    """
    own = Path(os.path.realpath(folder))
    inside = [own, own.parent.parent / "blobs"] if own.parent.name == "snapshots" else [own]
    for path in sorted(folder.iterdir()):
        place = Path(os.path.realpath(path))
        if (
            path.is_symlink()
            and path.is_file()
            and path != source
            and not any(place.is_relative_to(one) for one in inside)
        ):
            raise ValueError(
                f"{path} is a link to {place}, outside its folder: replace the link by a copy of"
                " the file"
            )


def beside(folder: Path, name: object, subject: object) -> Path:
    """The path of the file ``name`` in ``folder``; ``subject`` is the file that mentions this name,
    for error messages.

    Raises:
        ValueError: ``name`` is a path instead of a plain name, or the file is missing.
    """
    if (
        not isinstance(name, str)
        or Path(name).name != name
        or name in ("", ".", "..")
        or "\0" in name
    ):
        raise ValueError(
            f"{subject} names the file {shown(name)}: give the name, without folders, of a file in"
            f" {folder}"
        )
    if not (folder / name).is_file():
        raise ValueError(
            f"{subject} names the file {shown(name)}, which is not in {folder}: put it there"
        )
    return folder / name


class Settings:
    """The options in a model's configuration file, checked when they are read. For a value of a
    wrong type or out of range, all methods raise a ValueError that names it.

    Args:
        values: {name: value}.
        subject: the file, for error messages.
    """

    def __init__(self, values: Dict[str, Any], subject: object) -> None:
        self.values, self.subject = values, subject

    def number(
        self, name: str, default: Optional[int] = None, *, least: int = 1, most: int = 1 << 20
    ) -> int:
        """The value ``name``, an integer from ``least`` to ``most`` or a string of its digits;
        ``default`` if there is none. The value is required if ``default`` is None."""
        value = self.values.get(name, default)
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 12:
            value = int(value)
        if type(value) is not int or not least <= value <= most:
            raise ValueError(
                f"{self.subject} has {name}: {shown(value)}; it must be an integer from {least} to"
                f" {most}"
            )
        return value

    def fraction(self, name: str, default: float) -> float:
        """The value ``name``, a number between -1e9 and 1e9 or a string with one, as a float;
        ``default`` if there is none."""
        value = self.values.get(name, default)
        try:
            number = (
                float(value)
                if isinstance(value, (str, int, float)) and not isinstance(value, bool)
                else None
            )
        except (ValueError, OverflowError):
            number = None
        if number is None or not -1e9 < number < 1e9:
            raise ValueError(
                f"{self.subject} has {name}: {shown(value)}; it must be a number between -1e9 and"
                " 1e9"
            )
        return number

    def switch(self, name: str, default: bool = False) -> bool:
        """The value ``name``, a boolean or the string "true" or "false", or ``default`` if there is
        none."""
        value = self.values.get(name, default)
        value = (
            {"true": True, "false": False}.get(value, value) if isinstance(value, str) else value
        )
        if not isinstance(value, bool):
            raise ValueError(f"{self.subject} has {name}: {shown(value)}; it must be true or false")
        return value

    def text(self, name: str, default: str = "") -> str:
        """The value ``name``, a string, or ``default`` if there is none."""
        value = self.values.get(name, default)
        if not isinstance(value, str):
            raise ValueError(f"{self.subject} has {name}: {shown(value)}; it must be a string")
        return value

    def require(self, name: str, known: Tuple[Any, ...], default: Any) -> Any:
        """The value ``name``, or ``default`` if there is none. Raises ValueError unless the value
        equals one of ``known`` and has the type of one of ``known`` (so 1 is not True): models with
        other values cannot be imported."""
        value = self.values.get(name, default)
        if value not in known or type(value) not in {type(one) for one in known}:
            wanted = " or ".join(shown(one) for one in known)
            raise ValueError(
                f"{self.subject} has {name}: {shown(value)}, which cannot be imported; models with"
                f" {wanted} can"
            )
        return value
