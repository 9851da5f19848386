"""Descriptions of unknown origin as plain data: JSON and YAML of bounded size, texts and numbers,
nothing that runs or refers."""

import os
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

from ..io.escaping import shown
from ..io.json_objects import json_object

# The installation that reads every model, for messages.
WHOLE = "the whole plugin, fairseq_hrt"
# A vocabulary of a million long words takes less.
LARGEST = 64 * 1024 * 1024
# Descriptions of models have two levels.
DEEPEST = 16
# Characters that YAML does not allow or takes for ends of lines, and Marian writes as they are;
# they are parsed as others, of planes for private use, that no vocabulary has.
_PLAIN = {code: 0xF0000 + code for code in (*range(0x7F, 0xA0), 0x2028, 0x2029, 0xFEFF)}
_AS_WRITTEN = {other: code for code, other in _PLAIN.items()}


def read_bytes(path: Path, largest: int = LARGEST) -> bytes:
    """The content of a plain file.

    Raises:
        ValueError: it is larger than that, or no plain file.
        OSError: it cannot be read.
    """
    if not path.is_file():
        raise ValueError(f"{path} is {'not a plain file' if path.exists() else 'missing'}")
    with open(path, "rb") as file:
        # As many as there are: room for what is read is made beforehand.
        content = file.read(min(largest, os.fstat(file.fileno()).st_size) + 1)
    if len(content) > largest:
        raise ValueError(f"{path} has more than {largest} bytes: files of this kind are smaller")
    return content


def read_text(path: Path) -> str:
    """The content of a text file in UTF-8; see :func:`read_bytes`."""
    return decoded(read_bytes(path), path)


def decoded(content: bytes, path: Path) -> str:
    """Bytes of a file as text.

    Raises:
        ValueError: they are not UTF-8.
    """
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path} is not text in UTF-8: {error.reason} at byte {error.start}"
        ) from None


def read_json(path: Path) -> Dict[str, Any]:
    """A JSON object whose keys are distinct.

    Raises:
        ValueError: the file holds something else.
    """
    try:
        return json_object(read_text(path))
    except ValueError as error:
        raise ValueError(f"{path} cannot be read as JSON: {error}") from None


class _Composer:
    """Puts a document together from YAML's events, without recursion."""

    def __init__(self) -> None:
        self.documents: List[Any] = []
        # Open lists and tables, and of each table the key that has no value yet.
        self.open: List[Any] = []
        self.keys: List[Optional[str]] = []

    def take(self, event: Any) -> None:
        """One event.

        Raises:
            ValueError: it is one that is refused.
        """
        import yaml  # type: ignore[import-untyped]

        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise ValueError("it has anchors or aliases")
        if getattr(event, "tag", None) is not None:
            raise ValueError(f"it has the tag {shown(event.tag)}")
        if isinstance(event, yaml.ScalarEvent):
            self.add(event.value.translate(_AS_WRITTEN))
        elif isinstance(event, yaml.CollectionStartEvent):
            if len(self.open) == DEEPEST:
                raise ValueError("it is nested too deeply")
            value: Any = {} if isinstance(event, yaml.MappingStartEvent) else []
            self.add(value)
            self.open.append(value)
            self.keys.append(None)
        elif isinstance(event, yaml.CollectionEndEvent):
            self.open.pop()
            self.keys.pop()

    def add(self, value: Any) -> None:
        """A value, in its place."""
        if not self.open:
            self.documents.append(value)
        elif isinstance(self.open[-1], list):
            self.open[-1].append(value)
        elif self.keys[-1] is not None:
            self.open[-1][self.keys[-1]], self.keys[-1] = value, None
        elif not isinstance(value, str):
            raise ValueError("a key is not text")
        elif value in self.open[-1]:
            raise ValueError(f"{shown(value)} appears twice")
        else:
            self.keys[-1] = value


def parse_yaml(text: str, path: Path) -> Any:
    """YAML as dictionaries, lists and texts; every value is the text that stands there, an empty
    one is ``""``.

    Tags, anchors and aliases are refused, as is more than one document: Marian writes none of them.

    Raises:
        ValueError: the text is not such YAML, or the package is not installed.
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
            f"{path} cannot be read as YAML: it holds {len(composer.documents)} documents, not one"
        )
    return composer.documents[0]


def refuse_links_outside(folder: Path, source: Path) -> None:
    """Refuses links that lead out of a folder, which may come from anywhere: what they show would
    become part of a bundle.

    Hugging Face's cache keeps the files of ``snapshots/COMMIT`` in ``blobs`` beside ``snapshots``.

    Args:
        folder: to be read.
        source: what the user names: it may be a link.

    Raises:
        ValueError: there is such a link.
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
                f"{path} is a link to {place}, outside its folder: put the file itself there"
            )


def beside(folder: Path, name: object, subject: object) -> Path:
    """A file that a description names by its plain name, in the same folder.

    Raises:
        ValueError: the name leads elsewhere, or the file is missing.
    """
    if (
        not isinstance(name, str)
        or Path(name).name != name
        or name in ("", ".", "..")
        or "\0" in name
    ):
        raise ValueError(
            f"{subject} names the file {shown(name)}: it must be the plain name of a file beside it"
        )
    if not (folder / name).is_file():
        raise ValueError(
            f"{subject} names the file {shown(name)}, which is not in {folder}: put it there"
        )
    return folder / name


class Settings:
    """The contents of a description, looked up by name and checked.

    Args:
        values: the description.
        subject: the file, for messages.
    """

    def __init__(self, values: Dict[str, Any], subject: object) -> None:
        self.values, self.subject = values, subject

    def number(
        self, name: str, default: Optional[int] = None, *, least: int = 1, most: int = 1 << 20
    ) -> int:
        """An integer within limits.

        Raises:
            ValueError: it is missing without a default, no integer, or beyond the limits.
        """
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
        """A finite number.

        Raises:
            ValueError: it is none.
        """
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
            raise ValueError(f"{self.subject} has {name}: {shown(value)}; it must be a number")
        return number

    def switch(self, name: str, default: bool = False) -> bool:
        """True or false.

        Raises:
            ValueError: it is neither.
        """
        value = self.values.get(name, default)
        value = (
            {"true": True, "false": False}.get(value, value) if isinstance(value, str) else value
        )
        if not isinstance(value, bool):
            raise ValueError(f"{self.subject} has {name}: {shown(value)}; it must be true or false")
        return value

    def text(self, name: str, default: str = "") -> str:
        """A text.

        Raises:
            ValueError: it is none.
        """
        value = self.values.get(name, default)
        if not isinstance(value, str):
            raise ValueError(f"{self.subject} has {name}: {shown(value)}; it must be a text")
        return value

    def require(self, name: str, known: Tuple[Any, ...], default: Any) -> Any:
        """One of a few values; others cannot be represented.

        Raises:
            ValueError: another one.
        """
        value = self.values.get(name, default)
        if value not in known or type(value) not in {type(one) for one in known}:
            wanted = " or ".join(shown(one) for one in known)
            raise ValueError(
                f"{self.subject} has {name}: {shown(value)}, which cannot be represented here;"
                f" models with {wanted} can"
            )
        return value
