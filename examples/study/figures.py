"""Figures of finished entries by their places: scores, speeds, budgets, and conditions over
them."""

import ast
import json
import operator
import re
import statistics
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence

from matrix import FOLDER, Entry
from outcomes import Outcome, measured
from store import Store, by_name

HERE = Path(__file__).resolve().parent
OPERATORS: Dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
    ast.Eq: operator.eq,
}  # fmt: skip


def evaluate(expression: str, values: Mapping[str, float]) -> Any:
    """A condition or sum over named values, such as ``"a >= b - 0.3 and c < 1"``.

    Raises:
        ValueError: for anything but numbers, the names, + - * /, comparisons, ``and`` and ``or``.
    """

    def of(node: ast.AST) -> Any:
        if isinstance(node, ast.Expression):
            return of(node.body)
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
            return node.value
        if isinstance(node, ast.Name) and node.id in values:
            return values[node.id]
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -of(node.operand)
        if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
            return OPERATORS[type(node.op)](of(node.left), of(node.right))
        if isinstance(node, ast.Compare) and all(type(own) in OPERATORS for own in node.ops):
            terms = [of(term) for term in (node.left, *node.comparators)]
            return all(
                OPERATORS[type(own)](left, right)
                for own, left, right in zip(node.ops, terms, terms[1:])
            )
        if isinstance(node, ast.BoolOp):
            parts = [of(part) for part in node.values]
            return all(parts) if isinstance(node.op, ast.And) else any(parts)
        raise ValueError(
            f"{expression!r}: {ast.dump(node)[:60]} is not allowed; give numbers,"
            f" {', '.join(values)}, + - * /, comparisons, and, or"
        )

    try:
        return of(ast.parse(expression, mode="eval"))
    except SyntaxError:
        raise ValueError(f"{expression!r} is no expression") from None


class Figures:
    """The measurements of a study by name.

    Args:
        entries: of the matrix.
        store: where they are.
        published: outcomes by identity, which stand for entries whether or not they are finished
            here as well.
        reference: the system whose speed counts as 1.
        pictures: the folder with the published pictures.
    """

    def __init__(
        self,
        entries: Sequence[Entry],
        store: Store,
        published: Optional[Mapping[str, Outcome]] = None,
        reference: str = "",
        pictures: Path = HERE,
    ) -> None:
        self.entries, self.store = by_name(list(entries)), store
        self.published, self.reference, self.pictures = dict(published or {}), reference, pictures
        self._outcomes: Dict[str, Optional[Outcome]] = {}

    def entry(self, name: str) -> Entry:
        """Raises ValueError for an unknown name."""
        if name not in self.entries:
            raise ValueError(f"the matrix has no entry {name!r}")
        return self.entries[name]

    def folder(self, name: str) -> Path:
        return self.store.path(self.entry(name))

    def outcome(self, name: str) -> Optional[Outcome]:
        """What an entry measured, published or of this store; None until it is finished."""
        if name not in self._outcomes:
            entry = self.entry(name)
            published = self.published.get(entry.identity)
            self._outcomes[name] = published or measured(entry, self.store, self.reference)
        return self._outcomes[name]

    def is_published(self, name: str) -> bool:
        """Whether the outcome of an entry is a published one, not that of this store."""
        return self.entry(name).identity in self.published

    def system(self, name: str, system: str) -> Optional[Dict[str, Any]]:
        """What a benchmark measured of one system, see :func:`outcomes.reduced`; None until it is
        finished.

        Raises:
            ValueError: it has measured no system of this name.
        """
        outcome = self.outcome(name)
        if outcome is None:
            return None
        for number, found in enumerate(outcome.systems, start=1):
            if found["name"] == system:
                return {**found, "number": number}
        raise ValueError(
            f"{name!r} measured no system {system!r}, but"
            f" {', '.join(found['name'] for found in outcome.systems)}"
        )

    def translations(self, name: str, system: str) -> Optional[List[str]]:
        """The lines that a system of a finished benchmark translated; None until then, and for
        published outcomes, which have none."""
        found = self.system(name, system)
        if found is None or self.is_published(name):
            return None
        paths = list(self.folder(name).glob(f"translations_{found['number']}_*.txt"))
        if len(paths) != 1:
            raise ValueError(
                f"{name!r} has {len(paths)} files of translations by {system!r} in"
                f" {self.folder(name)}; run it again"
            )
        path = paths[0]
        return path.read_text(encoding="utf-8").split("\n")[:-1]

    def text(self, name: str, file: str) -> Optional[str]:
        """A Markdown file of an entry; None until it is finished, or where it was not published
        with it.

        Raises:
            OSError: it cannot be read.
        """
        outcome = self.outcome(name)
        if outcome is None or self.is_published(name):
            return None if outcome is None else outcome.texts.get(file)
        return (self.folder(name) / file).read_text(encoding="utf-8")

    def value(self, place: str) -> Optional[float]:
        """A figure by its place; None until it is measured.

        ``ENTRY/SYSTEM/bleu`` (chrf, length_ratio, identical, ms@1, sentences@32, calls@1),
        ``ENTRY:FILE.json:key.key`` (lists by number, or their ``mean``; None as well where it was
        not published with the entry), ``ENTRY/epochs`` or ``ENTRY/minutes``.

        Raises:
            ValueError: there is no such place.
        """
        if ":" in place and place.split(":")[1].endswith(".json"):
            name, file, keys = place.split(":", 2)
            return self._json_value(name, file, keys)
        name, *rest = place.split("/")
        if rest == ["epochs"]:
            return self.epochs(name)
        if rest == ["minutes"]:
            outcome = self.outcome(name)
            return None if outcome is None else outcome.seconds / 60
        if len(rest) < 2:
            raise ValueError(f"{place!r} names no figure")
        quantity, system = rest[-1], "/".join(rest[:-1])
        if not re.fullmatch(r"bleu|chrf|length_ratio|identical|(ms|sentences|calls)@\d+", quantity):
            raise ValueError(
                f"{place!r}: unknown figure {quantity!r}; give bleu, chrf, length_ratio, identical,"
                " ms@1, sentences@32, calls@1"
            )
        found = self.system(name, system)
        if found is None:
            return None
        if "@" in quantity:
            return timing(found, *quantity.split("@"))
        if quantity == "identical":
            if found["identical"] is None:
                raise ValueError(
                    f"{place!r}: {name!r} compares with no system; give it the option identical-to"
                )
            return found["identical"]
        return float(found["quality"][quantity])

    def _json_value(self, name: str, file: str, keys: str) -> Optional[float]:
        outcome = self.outcome(name)
        if outcome is None or self.is_published(name):
            return None if outcome is None else outcome.values.get(f"{file}:{keys}")
        if file != Path(file).name:
            raise ValueError(f"{file!r} is no file in the folder of {name!r}")
        try:
            found: Any = json.loads((self.folder(name) / file).read_text(encoding="utf-8"))
            for key in keys.split("."):
                if isinstance(found, list):
                    found = statistics.mean(found) if key == "mean" else found[int(key)]
                else:
                    found = found[key]
            return float(found)
        except (LookupError, TypeError, ValueError) as error:
            raise ValueError(
                f"{name!r} has no number {keys!r} in its {file} ({type(error).__name__}: {error})"
            ) from None

    def epochs(self, name: str) -> Optional[float]:
        """Passes over the training data behind a finished model, those of the model it started from
        included."""
        return self._behind(name, lambda outcome: outcome.epochs)

    def minutes(self, name: str) -> Optional[float]:
        """Wall time of the trainings behind a finished model, those of the model it started from
        included."""
        return self._behind(name, lambda outcome: outcome.seconds / 60)

    def _behind(self, name: str, own: Callable[[Outcome], Optional[float]]) -> Optional[float]:
        """The sum of ``own`` over a finished model and those it started from; None if it is unknown
        for one of them."""
        entry, outcome = self.entry(name), self.outcome(name)
        if entry.kind == "train":
            start = entry.fields.get("options", {}).get("finetune-from-model", "")
            parents, parts = FOLDER.findall(start), [None if outcome is None else own(outcome)]
        else:
            # What turns one model into another trains nothing; the trainings it stands on count.
            parents, parts = (
                [
                    parent
                    for parent in entry.parents
                    if self.entries[parent].kind in ("train", "command")
                ],
                [],
            )
        parts += [self._behind(parent, own) for parent in parents]
        known = [part for part in parts if part is not None]
        return sum(known) if len(known) == len(parts) else None


def timing(found: Mapping[str, Any], quantity: str, size: str) -> float:
    """A speed of a system: ``ms`` a batch, ``sentences`` a second, ``calls`` of the decoder a
    batch.

    Raises:
        ValueError: unknown quantity, or a batch size that was not measured.
    """
    speeds = found["speeds"].get(size)
    if speeds is None:
        raise ValueError(
            f"{found['name']!r} was not timed at batch size {size}, but at"
            f" {', '.join(found['speeds'])}"
        )
    if speeds.get(quantity) is None:
        raise ValueError(
            f"unknown speed {quantity!r}; give ms, sentences or, where they were counted, calls"
        )
    return float(speeds[quantity])
