"""Reads ``bundle.json`` and checks that it has only permitted contents. The file may come from
anywhere: nothing in it is run, imported or evaluated.

* The task is a registered one: one of this package's, of a plugin that the user has imported, or
  fairseq's ``translation`` or ``translation_lev``. The native engine checks it later, itself.
* Options have known names, and values that are numbers, switches, choices or words.
* Files are plain names of files in the folder, not links, which could lead elsewhere.
* Every violation raises a ValueError of one line that names the value.
"""

import re
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional

from ..io.escaping import shown
from ..io.json_objects import json_object
from ..plugin import plugin
from .data_options import language_of_data, option_for_runtime, option_of_data

# The version of bundles that this release writes and reads.
FORMAT = 1
# A description with a long card takes a few thousand bytes.
LARGEST = 1_000_000
MOST_MODELS = 64
# Example sentences, and characters of each.
MOST_EXAMPLES, LONGEST_EXAMPLE = 10, 200
_FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+@-]{0,199}")
_TASK = re.compile(r"[A-Za-z0-9_]{1,100}")
# A language token, after a separate mark of a word if SentencePiece segmented it with the text.
_PREFIX = re.compile(r"(?:\u2581 )?[!-~]{1,100}")
_TEXTS = ("source_lang", "target_lang", "tokenizer", "subwords")
_NEEDED = ("format", "task", *_TEXTS)
# Optional fields, besides codes, that name a file in the bundle.
_MORE_FILES = ("rules", "runtime", "shortlist", "target_codes")
_PREFIXES = ("source_prefix", "target_prefix")
_FIELDS = (
    *(*_NEEDED, "models", "codes", "options", "card", "examples"),
    *(*_MORE_FILES, "runtime_options", *_PREFIXES),
)


def read_description(folder: Path, *, for_runtime: bool) -> Dict[str, Any]:
    """Reads ``bundle.json``, checks its fields, and returns them with the names and types of
    :class:`.bundle.Bundle`'s attributes, without ``folder``.

    Args:
        folder: the bundle's folder.
        for_runtime: whether the bundle is for the native engine, which checks the task and the
            options itself; fairseq is then not loaded.

    Raises:
        ValueError: the file is missing, or holds something that a bundle must not.
    """
    path = folder / "bundle.json"
    document = _read_json(path, folder)
    _check_fields(document, path)
    task = _checked_task(document["task"], path, for_runtime=for_runtime)
    for side in ("source_lang", "target_lang"):
        language_of_data(document[side], str(path))
    for name in ("tokenizer", "subwords"):
        if not isinstance(document[name], str):
            raise ValueError(
                f"{path} names the {name} {shown(document[name])}, which is not text: give its name"
                " in quotation marks"
            )
    models = _checked_models(
        document.get("models", ["model.pt"]), path, least=int(document.get("runtime") is None)
    )
    files = {name: document.get(name) for name in ("codes", *_MORE_FILES)}
    for name in [
        *models,
        *(name for name in files.values() if name is not None),
        *(f"dict.{document[side]}.txt" for side in ("source_lang", "target_lang")),
    ]:
        _require_file(folder, name, path)
    card = document.get("card", {})
    if not isinstance(card, dict):
        raise ValueError(f"{path} has the card {shown(card)}: it must be an object, {{...}}")
    found = {name: document[name] for name in _TEXTS}
    found.update(files, task=task, models=models, card=card)
    for name in _PREFIXES:
        prefix = found[name] = document.get(name)
        if prefix is not None and not (isinstance(prefix, str) and _PREFIX.fullmatch(prefix)):
            raise ValueError(
                f"{path} has the {name} {shown(prefix)}: it must be one word, e.g. de_DE"
            )
    for name in ("options", "runtime_options"):
        found[name] = checked_options(
            document.get(name, {}), None if for_runtime else task, str(path)
        )
    found["examples"] = checked_examples(document.get("examples", []), str(path))
    return found


def _check_fields(document: Dict[str, Any], path: Path) -> None:
    known = document.get("format")
    if type(known) is not int or known != FORMAT:
        raise ValueError(
            f"{path} has the format {shown(known)}, this release reads {FORMAT}: make the bundle"
            " again, or install the release that made it"
        )
    for name in document:
        if name not in _FIELDS:
            raise ValueError(
                f"{path} does not describe a bundle: its field {shown(name)} is not one of"
                f" {', '.join(_FIELDS)}; remove this field"
            )
    for name in _NEEDED:
        if name not in document:
            raise ValueError(
                f"{path} does not describe a bundle: it has no {name!r}; make one with fairseq-hrt"
                " import or bundle"
            )


def _checked_task(task: object, path: Path, *, for_runtime: bool) -> str:
    if for_runtime and isinstance(task, str):
        if not _TASK.fullmatch(task):
            raise ValueError(
                f"{path} names the task {shown(task)}: it must be letters, digits and _, e.g."
                " translation_hrt"
            )
        return task
    return plugin().require_known_task(task, str(path))


def _read_json(path: Path, folder: Path) -> Dict[str, Any]:
    if folder.is_file():
        raise ValueError(
            f"{folder} is a file, not a bundle: give a folder made by fairseq-hrt import or bundle"
        )
    try:
        if path.is_symlink() or not path.is_file():
            # Reading a pipe or a device could block.
            raise ValueError(
                f"{folder} is not a bundle: {path.name} is {_kind(path)}; make one with fairseq-hrt"
                " import or bundle"
            )
        with open(path, "rb") as file:
            content = file.read(LARGEST + 1)
    except OSError as error:
        raise ValueError(
            f"{folder} is not a bundle: {error}; make one with fairseq-hrt import or bundle"
        ) from error
    if len(content) > LARGEST:
        raise ValueError(
            f"{path} does not describe a bundle: it has more than {LARGEST} bytes; make one with"
            " fairseq-hrt import or bundle"
        )
    try:
        return json_object(content.decode("utf-8"))
    except ValueError as error:
        raise ValueError(
            f"{path} does not describe a bundle: {' '.join(str(error).split())}; make one with"
            " fairseq-hrt import or bundle"
        ) from None


def _kind(path: Path) -> str:
    if path.is_symlink():
        return "a link"
    return "not a plain file" if path.exists() else "missing"


def _checked_models(models: object, path: Path, *, least: int) -> List[str]:
    if (
        not isinstance(models, list)
        or not least <= len(models) <= MOST_MODELS
        or len(set(map(repr, models))) < len(models)
    ):
        raise ValueError(
            f"{path} names the models {shown(models)}: it must be a list of {least} to"
            f" {MOST_MODELS} distinct names of files"
        )
    return models


def _require_file(folder: Path, name: object, path: Path) -> None:
    """Raises ValueError unless ``name`` is the plain name of a file, not a link, in the bundle's
    folder. ``path`` is that of ``bundle.json``, for the message."""
    if not isinstance(name, str) or not _FILE.fullmatch(name):
        raise ValueError(
            f"{path} names {shown(name)}, which the bundle does not hold: it must be the plain name"
            " of a file beside it"
        )
    if (folder / name).is_symlink():
        raise ValueError(
            f"{path} names {shown(name)}, which is a link: copy the file itself into the bundle"
        )
    if not (folder / name).is_file():
        raise ValueError(
            f"{path} names {shown(name)}, which the bundle does not hold: copy the bundle with all"
            " of its files"
        )


def checked_options(options: object, task: Optional[str], subject: str) -> Dict[str, str]:
    """Checks the decoding options of a bundle; returns them as {name: value as a text}.

    Args:
        options: the field's value in the file, which should be an object {name: value}.
        task: the task that must have the options; None: any task, for the native engine, which
            checks them itself without fairseq.
        subject: the file, for the message.

    Raises:
        ValueError: a bundle must not set one of the options, or not to the value given.
    """
    if not isinstance(options, Mapping):
        raise ValueError(
            f"{subject} has the options {shown(options)}: it must be an object, {{name: value}}"
        )
    if task is None:
        return dict(option_for_runtime(name, value, subject) for name, value in options.items())
    allowed = plugin().allowed_options(task)
    return dict(option_of_data(name, value, allowed, subject) for name, value in options.items())


def checked_examples(examples: object, subject: str) -> List[str]:
    """Checks and returns the example sentences of a bundle: a few short lines of text without
    control characters.

    Args:
        examples: the field's value in the file, which should be a list of texts.
        subject: the file, for the message.

    Raises:
        ValueError: there are more than MOST_EXAMPLES, or an example is empty, has more than
            LONGEST_EXAMPLE characters, or is not one line of printable text.
    """
    if not isinstance(examples, list) or len(examples) > MOST_EXAMPLES:
        raise ValueError(
            f"{subject} has the examples {shown(examples)}: it must be a list of at most"
            f" {MOST_EXAMPLES} texts"
        )
    for example in examples:
        if (
            not isinstance(example, str)
            or not 0 < len(example) <= LONGEST_EXAMPLE
            or not example.isprintable()
        ):
            raise ValueError(
                f"{subject} has the example {shown(example)}: it must be one line of 1 to"
                f" {LONGEST_EXAMPLE} printable characters"
            )
    return list(examples)
