"""Reads a matrix of configurations and knows every entry by its content.

A matrix is a TOML file:

    [options.small]                      # options of fairseq-train that several entries share
    encoder-layers = 4

    [[entry]]
    name = "at"
    kind = "train"                       # prepare, train, distill, command, tune, benchmark (see
    steps.py) data = "${en-de}/data-bin"           # ${NAME} is the folder of another entry: that
    entry comes first use = ["small"]                      # these tables of options, later ones
    win, options = { seed = 1, lr = 0.001 }   # then these
    minutes = 20                         # a guess, for the estimate of the time left

    [[entry]]
    name = "at-seed2"
    like = "at"                          # everything as there, but:
    options = { seed = 2 }
    rename = { en-de = "en-fr" }         # and ${en-fr} where it says ${en-de}

    [[copy]]                             # a second time, whole: a copy of each of these entries,
    named with the suffix, which refer to each other suffix = "-seed2"
    entries = ["at", "distilled", "hrt"]
    train = { options = { seed = 2 } }   # what is different in the copies of a kind

``$(NAME/FILE)`` is the text in a file that another entry writes. Two entries of the same content
are one, whatever their names; name, note, minutes, threads, nice and alone are no part of the
content.
"""

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping, Tuple

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    import tomli as tomllib

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
FOLDER = re.compile(r"\$\{([^}]*)\}")
TEXT = re.compile(r"\$\(([^/)]*)/([^)]*)\)")
KINDS = ("prepare", "train", "distill", "command", "tune", "benchmark")
# These say how an entry is run or shown, not what it is.
OUTSIDE_IDENTITY = {"name", "like", "rename", "use", "note", "minutes", "threads", "nice", "alone"}


@dataclass(frozen=True)
class Entry:
    """One configuration of the matrix.

    Attributes:
        name: what people call it.
        fields: what it consists of; for a training with all its options.
        identity: hash of the fields, in which other entries are named by their identities.
        parents: names of the entries that must be finished first.
        minutes: guessed duration.
        threads: of each of its processes.
        nice: how far its processes stand back behind others, 0 to 19.
        alone: whether nothing else may run at the same time (for measurements of speed).
        note: for people.
    """

    name: str
    fields: Mapping[str, Any]
    identity: str
    parents: Tuple[str, ...]
    minutes: float = 1.0
    threads: int = 1
    nice: int = 0
    alone: bool = False
    note: str = ""

    @property
    def kind(self) -> str:
        return str(self.fields["kind"])


def strings(value: Any) -> Iterator[str]:
    """All strings inside nested lists and tables."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)


def replaced(value: Any, change: Any) -> Any:
    """The same nested lists and tables with ``change(text)`` for every string."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {key: replaced(item, change) for key, item in value.items()}
    if isinstance(value, list):
        return [replaced(item, change) for item in value]
    return value


def references(value: Any) -> List[str]:
    """Names of the entries that a value refers to, in order of appearance, each once; ``${out}`` is
    the entry's own folder."""
    found: Dict[str, None] = {}
    for text in strings(value):
        for name in FOLDER.findall(text):
            if name != "out":
                found[name] = None
        for name, _ in TEXT.findall(text):
            found[name] = None
    return list(found)


def renamed(value: Any, names: Mapping[str, str]) -> Any:
    """The value with references to other entries, as ``names`` says."""

    def change(text: str) -> str:
        text = FOLDER.sub(lambda match: "${" + names.get(match[1], match[1]) + "}", text)
        return TEXT.sub(lambda match: f"$({names.get(match[1], match[1])}/{match[2]})", text)

    return replaced(value, change)


def _inherited(
    raw: Mapping[str, Dict[str, Any]], name: str, seen: Tuple[str, ...] = ()
) -> Dict[str, Any]:
    """The fields of an entry with those of the entry it is ``like``."""
    own = raw[name]
    origin = own.get("like")
    if origin is None:
        return dict(own)
    if origin not in raw:
        raise ValueError(f"entry {name!r}: like={origin!r} names no entry; give one of the matrix")
    if origin in seen:
        raise ValueError(
            f"entry {name!r} is like itself ({' → '.join([*seen, name])}); remove one like="
        )
    base = _inherited(raw, origin, (*seen, name))
    names = own.get("rename", {})
    earlier = base.pop("rename", {})
    base = renamed(base, names)
    # What the entry takes from shared tables is renamed like what it takes from the other entry.
    base["rename"] = {**names, **{old: names.get(new, new) for old, new in earlier.items()}}
    for key, value in own.items():
        if key == "rename":
            continue
        merged = isinstance(value, Mapping) and isinstance(base.get(key), Mapping)
        base[key] = {**base[key], **value} if merged else value
    return base


def _identity(fields: Mapping[str, Any], identities: Mapping[str, str]) -> str:
    """Hash of the fields; what they refer to counts by its own identity."""
    if fields["kind"] == "train":
        # Trainings named this script before fairseq-train had --bf16 on CPUs; identities of what
        # they made stay.
        fields = {**fields, "program": "examples/common/train_bf16.py"}
    text = json.dumps(renamed(fields, identities), sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def resolve(raw: Mapping[str, Any]) -> List[Entry]:
    """The entries of a parsed matrix in its order, parents before children where the order leaves a
    choice.

    Raises:
        ValueError: for an unknown kind, table of options or reference, a bad or double name, or
            entries that wait for each other.
    """
    shared = raw.get("options", {})
    tables: Dict[str, Dict[str, Any]] = {}
    for table in raw.get("entry", []):
        name = table.get("name", "")
        if not NAME.fullmatch(name) or name == "out":
            raise ValueError(
                f"entry name {name!r}: give letters, digits, '.', '-' and '_' (and not 'out')"
            )
        if name in tables:
            raise ValueError(f"two entries are called {name!r}; give each its own name")
        tables[name] = table
    for copy in raw.get("copy", []):
        _add_copies(copy, tables)
    entries: Dict[str, Entry] = {}
    for name in tables:
        _add(name, tables, shared, entries, ())
    return list(entries.values())


def _add_copies(copy: Mapping[str, Any], tables: Dict[str, Dict[str, Any]]) -> None:
    """Adds the entries that a ``[[copy]]`` asks for."""
    suffix, names = copy.get("suffix", ""), copy.get("entries", [])
    if not suffix:
        raise ValueError('a [[copy]] has no suffix; give one, e.g. suffix = "-seed2"')
    for name in names:
        if name not in tables:
            raise ValueError(f"[[copy]] {suffix!r}: there is no entry {name!r}")
    # In the order of the matrix, so that importance stays what it is.
    for name in [name for name in tables if name in names]:
        if name + suffix in tables:
            raise ValueError(
                f"two entries are called {name + suffix!r}; give the copy another suffix"
            )
        different = copy.get(_inherited(tables, name).get("kind", ""), {})
        tables[name + suffix] = {
            "name": name + suffix,
            "like": name,
            "rename": {other: other + suffix for other in names},
            **different,
        }


def _add(
    name: str,
    tables: Mapping[str, Any],
    shared: Mapping[str, Any],
    entries: Dict[str, Entry],
    path: Tuple[str, ...],
) -> None:
    """Adds an entry after the entries it refers to."""
    if name in entries:
        return
    if name in path:
        raise ValueError(f"entries wait for each other: {' → '.join([*path, name])}")
    own = _inherited(tables, name)
    if own.get("kind") not in KINDS:
        raise ValueError(
            f"entry {name!r}: unknown kind {own.get('kind')!r}; give one of {', '.join(KINDS)}"
        )
    options: Dict[str, Any] = {}
    for table in own.get("use", []):
        if table not in shared:
            raise ValueError(
                f"entry {name!r}: there is no [options.{table}]; give one of"
                f" {', '.join(shared) or 'those of the matrix'}"
            )
        options.update(renamed(shared[table], own.get("rename", {})))
    options.update(own.get("options", {}))
    # false takes an option of a shared table away.
    options = {key: value for key, value in options.items() if value is not False}
    fields = {key: value for key, value in own.items() if key not in OUTSIDE_IDENTITY}
    if options:
        fields["options"] = options
    _require_checkpoints(name, fields)
    parents = references(fields)
    for parent in parents:
        if parent not in tables:
            raise ValueError(
                f"entry {name!r} refers to {parent!r}, which is no entry of the matrix"
            )
        _add(parent, tables, shared, entries, (*path, name))
    identities = {parent: entries[parent].identity for parent in parents}
    entries[name] = Entry(
        name=name,
        fields=fields,
        identity=_identity(fields, identities),
        parents=tuple(parents),
        minutes=float(own.get("minutes", 1.0)),
        threads=int(own.get("threads", 1)),
        nice=int(own.get("nice", 0)),
        alone=bool(own.get("alone", False)),
        note=str(own.get("note", "")),
    )


def _require_checkpoints(name: str, fields: Mapping[str, Any]) -> None:
    """Refuses a training that cannot be averaged as it asks for: better now than after its
    hours."""
    options, wanted = fields.get("options", {}), int(fields.get("average", 1))
    updates, interval = options.get("max-update"), options.get("save-interval-updates")
    if not (isinstance(updates, int) and isinstance(interval, int) and interval > 0):
        return
    if fields["kind"] == "train" and updates // interval < wanted:
        raise ValueError(
            f"entry {name!r} averages {wanted} checkpoints, but {updates} updates write one every"
            f" {interval}: {updates // interval}; give a smaller average or save-interval-updates"
        )


def read_toml(path: Path) -> Dict[str, Any]:
    """A TOML file.

    Raises:
        ValueError: it is none; the message names it.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path} is no TOML file: {error}") from None


def read_matrix(path: Path) -> List[Entry]:
    """The entries of a TOML file.

    Raises:
        ValueError: as ``resolve`` and ``read_toml``.
    """
    return resolve(read_toml(path))
