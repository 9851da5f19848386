"""What finished entries measured: scores, speeds, budgets, and conditions over them."""

import ast
import json
import operator
import re
import statistics
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence

from matrix import FOLDER, Entry
from store import Store, by_name

UPDATES_OF_EPOCH = re.compile(r"epoch \d+: +\d+ / (\d+) .*num_updates=")
OPERATORS: Dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Eq: operator.eq,
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
            return all(OPERATORS[type(own)](left, right) for own, left, right in zip(node.ops, terms, terms[1:]))
        if isinstance(node, ast.BoolOp):
            parts = [of(part) for part in node.values]
            return all(parts) if isinstance(node.op, ast.And) else any(parts)
        raise ValueError(
            f"{expression!r}: {ast.dump(node)[:60]} is not allowed; give numbers, {', '.join(values)}, + - * /, comparisons, and, or"
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
    """

    def __init__(self, entries: Sequence[Entry], store: Store) -> None:
        self.entries, self.store = by_name(list(entries)), store
        self._results: Dict[str, Optional[Dict[str, Any]]] = {}

    def entry(self, name: str) -> Entry:
        """Raises ValueError for an unknown name."""
        if name not in self.entries:
            raise ValueError(f"the matrix has no entry {name!r}")
        return self.entries[name]

    def folder(self, name: str) -> Path:
        return self.store.path(self.entry(name))

    def results(self, name: str) -> Optional[Dict[str, Any]]:
        """results.json of a finished benchmark; None until then."""
        if name not in self._results:
            finished = self.store.finished(self.entry(name))
            path = self.folder(name) / "results.json"
            self._results[name] = json.loads(path.read_text(encoding="utf-8")) if finished else None
        return self._results[name]

    def system(self, name: str, system: str) -> Optional[Dict[str, Any]]:
        """What a benchmark measured of one system; None until it is finished.

        Raises:
            ValueError: it has measured no system of this name.
        """
        results = self.results(name)
        if results is None:
            return None
        for number, found in enumerate(results["systems"], start=1):
            if found["name"] == system:
                return {**found, "number": number}
        raise ValueError(
            f"{name!r} measured no system {system!r}, but {', '.join(found['name'] for found in results['systems'])}"
        )

    def translations(self, name: str, system: str) -> Optional[List[str]]:
        """The lines that a system of a finished benchmark translated."""
        found = self.system(name, system)
        if found is None:
            return None
        (path,) = self.folder(name).glob(f"translations_{found['number']}_*.txt")
        return path.read_text(encoding="utf-8").split("\n")[:-1]

    def value(self, place: str) -> Optional[float]:
        """A figure by its place; None until it is measured.

        ``ENTRY/SYSTEM/bleu`` (chrf, length_ratio, identical, ms@1, sentences@32, calls@1),
        ``ENTRY:FILE.json:key.key`` (lists by number, or their ``mean``), ``ENTRY/epochs``, ``ENTRY/minutes``, or ``ENTRY/best/OPTION`` of a tuning.

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
            return self.store.seconds(self.entry(name)) / 60 if self.store.finished(self.entry(name)) else None
        if len(rest) < 2:
            raise ValueError(f"{place!r} names no figure")
        quantity, system = rest[-1], "/".join(rest[:-1])
        if not re.fullmatch(r"bleu|chrf|length_ratio|identical|(ms|sentences|calls)@\d+", quantity):
            raise ValueError(
                f"{place!r}: unknown figure {quantity!r}; give bleu, chrf, length_ratio, identical, ms@1, sentences@32, calls@1"
            )
        found = self.system(name, system)
        if found is None:
            return None
        if "@" in quantity:
            return timing(found, *quantity.split("@"))
        if quantity == "identical":
            if found["identical"] is None:
                raise ValueError(f"{place!r}: {name!r} compares with no system; give it the option identical-to")
            return found["identical"]
        return float(found["quality"][quantity])

    def _json_value(self, name: str, file: str, keys: str) -> Optional[float]:
        if not self.store.finished(self.entry(name)):
            return None
        found: Any = json.loads((self.folder(name) / file).read_text(encoding="utf-8"))
        for key in keys.split("."):
            if isinstance(found, list):
                found = statistics.mean(found) if key == "mean" else found[int(key)]
            else:
                found = found[key]
        return float(found)

    def epochs(self, name: str) -> Optional[float]:
        """Passes over the training data behind a finished model, those of the model it started from included."""

        def own(entry: Entry) -> Optional[float]:
            found = UPDATES_OF_EPOCH.findall(self.store.log_tail(entry, 2_000_000))
            return int(entry.fields["options"]["max-update"]) / int(found[-1]) if found else None

        return self._behind(name, own)

    def minutes(self, name: str) -> Optional[float]:
        """Wall time of the trainings behind a finished model, those of the model it started from included."""
        return self._behind(name, lambda entry: self.value(f"{entry.name}/minutes"))

    def _behind(self, name: str, own: Callable[[Entry], Optional[float]]) -> Optional[float]:
        """The sum of ``own`` over a finished model and those it started from; None if it is unknown for the model itself."""
        entry = self.entry(name)
        if not self.store.finished(entry):
            return None
        if entry.kind != "train":
            # What turns one model into another trains nothing; its parents count.
            return sum(
                self._behind(parent, own) or 0.0
                for parent in entry.parents
                if self.entries[parent].kind in ("train", "command")
            )
        start = entry.fields.get("options", {}).get("finetune-from-model", "")
        mine = own(entry)
        return None if mine is None else mine + sum(self._behind(parent, own) or 0.0 for parent in FOLDER.findall(start))


def speed_ratio(found: Mapping[str, Any], base: Mapping[str, Any], size: str) -> float:
    """How many times as fast as ``base``, of the same run: the median of the ratios within its repeats, as the benchmark's own tables.

    Raises:
        ValueError: a batch size that was not measured.
    """
    for one in (found, base):
        timing(one, "ms", size)
    ours, theirs = (one["timings"][size]["seconds"] for one in (found, base))
    return statistics.median(sum(their) / sum(our) for our, their in zip(ours, theirs))


def timing(found: Mapping[str, Any], quantity: str, size: str) -> float:
    """A speed of a system as measured by fairseq-hrt benchmark: ``ms`` a batch (median), ``sentences`` a second, ``calls`` a batch.

    Raises:
        ValueError: unknown quantity, or a batch size that was not measured.
    """
    timings = found["timings"].get(size)
    if timings is None:
        raise ValueError(f"{found['name']!r} was not timed at batch size {size}, but at {', '.join(found['timings'])}")
    repeats = timings["seconds"]
    if quantity == "ms":
        return 1000 * statistics.median(second for repeat in repeats for second in repeat)
    if quantity == "sentences":
        count = sum(len(batch) for batch in timings["batches"])
        return statistics.median(count / sum(repeat) for repeat in repeats)
    if quantity == "calls" and timings["decoder_calls"] is not None:
        return float(timings["decoder_calls"]) / len(timings["batches"])
    raise ValueError(f"unknown speed {quantity!r}; give ms, sentences or, where they were counted, calls")
