"""Figures by their places: what entries of the study measured, and what was measured apart.

``ENTRY/SYSTEM/bleu``       of a benchmark: bleu, chrf, length_ratio, identical, ms@1, sentences@32,
calls@1, times@1 (batch size) ``ENTRY:FILE.json:KEY``     of an analysis
``NAME#TABLE.ROW.COLUMN``   a cell of measured/NAME.json, counted from 0
``gpu:PLACE``               of a GPU, see gpu.py

A ``*`` in the name of a system stands for each of its seeds; the figure is their mean.
Outcomes of entries are lines of ``outcomes.jsonl``, known by their names.
"""

import ast
import json
import operator
from functools import cached_property
from pathlib import Path
from statistics import mean
from typing import Any, Callable, Dict, List, Mapping, Union

from gpu import GpuRun
from matrix import SEEDS

HERE = Path(__file__).resolve().parent
OPERATORS: Dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
    ast.Eq: operator.eq,
}  # fmt: skip
Figure = Union[float, str]
# Ends of a system's name, one for each of its seeds.
ENDS = ("", *(f" seed {seed}" for seed in SEEDS))


def evaluate(expression: str, values: Mapping[str, Figure]) -> Any:
    """A condition over named values, such as ``"a >= b - 0.3 and c < 1"``.

    Raises:
        ValueError: for anything but numbers, the names, + - * /, comparisons, ``and`` and ``or``.
    """

    def of(node: ast.AST) -> Any:
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
            return node.value
        if isinstance(node, ast.Name) and node.id in values:
            return values[node.id]
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
            f"{expression!r}: {ast.dump(node)[:60]} is neither a number nor one of"
            f" {', '.join(values)}"
        )

    return of(ast.parse(expression, mode="eval").body)


def read_outcomes(path: Path) -> List[Dict[str, Any]]:
    """The outcomes of finished entries in a file, one JSON object a line.

    Raises:
        ValueError: a line is not an outcome, or a name or an identity appears twice.
    """
    outcomes: List[Dict[str, Any]] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), start=1):
        if not line.strip():
            continue
        try:
            outcomes.append(json.loads(line))
            for key in ("name", "identity"):
                if outcomes[-1][key] in [outcome[key] for outcome in outcomes[:-1]]:
                    raise ValueError(f"{key} {outcomes[-1][key]!r} appears twice")
        except (LookupError, TypeError, ValueError) as error:
            raise ValueError(f"{path}, line {number} is not an outcome: {error}") from None
    return outcomes


class Figures:
    """The published figures.

    Args:
        folder: with ``outcomes.jsonl`` and ``measured``.
    """

    def __init__(self, folder: Path = HERE) -> None:
        self.folder = folder
        self.outcomes = {
            outcome["name"]: outcome for outcome in read_outcomes(folder / "outcomes.jsonl")
        }

    @cached_property
    def gpu(self) -> GpuRun:
        """What was measured on a GPU."""
        folder = self.folder / "measured"
        return GpuRun(folder / "gpu.json", folder / "gpu_updates.json")

    def outcome(self, name: str) -> Dict[str, Any]:
        """Raises ValueError for an entry that has no outcome."""
        if name not in self.outcomes:
            raise ValueError(f"no entry {name!r} has been published")
        return self.outcomes[name]

    def system(self, place: str) -> Dict[str, Any]:
        """What a benchmark measured of the system ``ENTRY/SYSTEM``.

        Raises:
            ValueError: there is none.
        """
        name, _, system = place.partition("/")
        for found in self.outcome(name)["systems"]:
            if found["name"] == system:
                return found
        raise ValueError(f"{name!r} measured no system {system!r}")

    def measured(self, name: str) -> Dict[str, Any]:
        """What was measured apart from the study."""
        return json.loads((self.folder / "measured" / f"{name}.json").read_text(encoding="utf-8"))

    def value(self, place: str) -> Figure:
        """A figure by its place, see the module; a number is itself.

        Raises:
            ValueError: there is no such figure; of a GPU :class:`gpu.NotMeasured`.
        """
        if place.isdecimal():
            return int(place)
        if place.startswith("gpu:"):
            return self.gpu.value(place.removeprefix("gpu:"))
        try:
            if "*" in place:
                return mean(float(self.value(place.replace("*", end))) for end in ENDS)
            if "#" in place:
                name, _, cell = place.partition("#")
                table, row, column = map(int, cell.split("."))
                return self.measured(name)["tables"][table]["rows"][row][column]
            name, _, key = place.partition(":")
            if name in self.outcomes:
                return self.outcome(name)["values"][key]
            rest, _, quantity = place.rpartition("/")
            found = self.system(rest)
            quantity, _, size = quantity.partition("@")
            if not size:
                return found["identical"] if quantity == "identical" else found["quality"][quantity]
            speed = found["speeds"][size]
            return next(iter(speed["times"].values())) if quantity == "times" else speed[quantity]
        except (LookupError, OSError, TypeError, ValueError) as error:
            raise ValueError(f"there is no figure {place!r}: {error}") from None
