"""Entries of the study: folders to be made, known by their content.

An entry is of one of these kinds (steps.py has their commands):

prepare     ``script`` with ``environment``; leaves data-bin
train       fairseq-train on ``data`` with ``options``, then the average of the last ``average``
            checkpoints: model.pt
distill     fairseq-hrt distill of ``data`` by ``system``; leaves data-bin
tune        fairseq-hrt tune on the validation set of ``data``: ``system`` over ``grid``; leaves
best,
            which can be appended to a system
benchmark   fairseq-hrt benchmark of ``systems`` on ``data`` with ``options``; leaves results.json
command     ``command``, a list; must leave ``result``

``${NAME}`` is the folder of another entry, ``$(NAME/FILE)`` the text of a file there. An entry is
known by the hash of its content, in which others stand by their own hashes: a new learning rate is
a new entry, a new name changes nothing, and nothing is trained twice.
"""

import hashlib
import json
import re
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Mapping, Sequence, Tuple

FOLDER = re.compile(r"\$\{([^}]*)\}")
TEXT = re.compile(r"\$\(([^/)]*)/([^)]*)\)")
Fields = Dict[str, Any]

TRAINING: Fields = {
    "source-lang": "en", "target-lang": "de", "user-dir": "fairseq_hrt",
    "share-all-embeddings": True, "optimizer": "adam", "adam-betas": "(0.9, 0.98)",
    "clip-norm": 1.0, "lr-scheduler": "polynomial_decay", "max-tokens": 2048, "seed": 1,
}  # fmt: skip
LANGUAGES = {"source-lang": "en", "target-lang": "de"}
VALID = {**LANGUAGES, "detokenize": "moses:de", "threads": 1}
TEST = {**VALID, "references": "${en-de}/raw/test.de.gz"}
# Quality does not depend on what else runs: speed is measured elsewhere.
QUICK = {**TEST, "repeats": 1, "speed-sentences": 16, "batch-sizes": "32"}
EXACT, INT8 = "engine=runtime,weights=float32,", "engine=runtime,weights=int8,"
AT_BEAM, AT_GREEDY = (f"task=translation_autoregressive,beam={beam}" for beam in (5, 1))
WINDOW = "max_len_a=1.5,max_len_b=10"


@dataclass(frozen=True)
class Entry:
    """One folder of the study.

    Attributes:
        name: what people call it.
        fields: what it consists of.
        identity: hash of the fields, in which other entries are named by their identities.
        parents: names of the entries that must be finished first.
        against: of a benchmark, the system that each of its systems is compared with.
    """

    name: str
    fields: Mapping[str, Any]
    identity: str
    parents: Tuple[str, ...]
    against: Mapping[str, str]

    @property
    def kind(self) -> str:
        return str(self.fields["kind"])


def replaced(value: Any, change: Callable[[str], str]) -> Any:
    """The same nested lists and tables with ``change(text)`` for every string."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {key: replaced(item, change) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [replaced(item, change) for item in value]
    return value


class Matrix:
    """Entries by name; each is added after those that it refers to."""

    def __init__(self) -> None:
        self.entries: Dict[str, Entry] = {}

    def add(self, name: str, kind: str, against: Mapping[str, str] = {}, **fields: Any) -> None:
        """Adds an entry.

        Raises:
            ValueError: a second one of a name, or a reference to one that is not there.
        """
        if name in self.entries:
            raise ValueError(f"two entries are called {name!r}")
        parents: Dict[str, None] = {}

        def identified(text: str) -> str:
            for other in (*FOLDER.findall(text), *(own for own, _ in TEXT.findall(text))):
                if other != "out":
                    parents[other] = None
            return TEXT.sub(
                lambda match: f"$({self.identity(match[1])}/{match[2]})", FOLDER.sub(folder, text)
            )

        def folder(match: "re.Match[str]") -> str:
            return match[0] if match[1] == "out" else "${" + self.identity(match[1]) + "}"

        fields = {"kind": kind, **fields}
        content = replaced(fields, identified)
        if kind == "train":
            # Trainings named this script before fairseq-train had --bf16 on CPUs; identities of
            # what they made stay.
            content["program"] = "examples/common/train_bf16.py"
        # Weights that are not named were int8 then.
        content = replaced(content, lambda text: text.replace(INT8, "engine=runtime,"))
        digest = hashlib.sha256(
            json.dumps(content, sort_keys=True, ensure_ascii=False).encode()
        ).hexdigest()
        self.entries[name] = Entry(name, fields, digest[:12], tuple(parents), against)

    def identity(self, name: str) -> str:
        if name not in self.entries:
            raise ValueError(f"there is no entry {name!r} yet; add it first")
        return self.entries[name].identity

    def train(self, name: str, *options: Mapping[str, Any], updates: int, lr: float,
              warmup: int = 100, layers: Tuple[int, int] = (3, 3),
              start: str = "", data: str = "en-de", average: int = 3, save: int = 250,
              **more: Any) -> None:  # fmt: skip
        """Adds a training; ``start`` is the entry whose model it starts from, ``more`` are options
        with _ for -."""
        sizes = {"embed-dim": 256, "ffn-embed-dim": 1024, "attention-heads": 4}
        every = dict(TRAINING)
        for side, count in zip(("encoder", "decoder"), layers):
            every.update({f"{side}-{key}": own for key, own in {"layers": count, **sizes}.items()})
        for own in options:
            every.update(own)
        every.update({key.replace("_", "-"): value for key, value in more.items()})
        every.update({"lr": lr, "warmup-updates": warmup, "save-interval-updates": save})
        every.update({"total-num-update": updates, "max-update": updates})
        if start:
            every["finetune-from-model"] = f"${{{start}}}/model.pt"
        self.add(name, "train", data=f"${{{data}}}/data-bin", options=every, average=average)

    def tune(self, name: str, system: str, *grid: str) -> None:
        """Adds a choice among options of decoding."""
        data = "${en-de}/data-bin"
        self.add(name, "tune", data=data, system=system, grid=list(grid), options=VALID)

    def test(
        self, name: str, systems: Sequence[str], options: Mapping[str, Any] = QUICK,
        against: Mapping[str, str] = {},
    ) -> None:  # fmt: skip
        """Adds a benchmark."""
        data, own = "${en-de}/data-bin", {"systems": list(systems), "options": dict(options)}
        self.add(name, "benchmark", against, data=data, **own)

    def distill(self, name: str, teacher: str, data: str, best: str = "", threads: int = 1) -> None:
        """Adds translations of the entry ``data`` by the model of the entry ``teacher``."""
        path = f"path=${{{teacher}}}/model.pt"
        system, options = (
            f"name=teacher,{path},{INT8}{AT_BEAM},{WINDOW}{best}",
            {"threads": threads},
        )
        data = f"${{{data}}}/data-bin"
        self.add(name, "distill", data=data, system=system, options=options)


def system(name: str, entry: str, *options: str, engine: str = EXACT) -> str:
    """A system of a benchmark: the model of an entry and the way it is decoded."""
    return f"name={name},path=${{{entry}}}/model.pt,{engine}{','.join(options)}"


def best(name: str) -> str:
    return f"$({name}/best)"


def at_ways(title: str, entry: str, *tuned: str, engine: str = EXACT) -> List[str]:
    """A Transformer with a beam, whose options the entry ``tuned`` chose, and greedily."""
    beam = system(f"{title} beam 5", entry, AT_BEAM, *map(best, tuned), engine=engine)
    return [beam, system(f"{title} greedy", entry, AT_GREEDY, engine=engine)]


def hrt(
    name: str, entry: str, chunk: Any, beams: Tuple[int, int], *tuned: str, engine: str = EXACT,
    way: str = "beam={0},hrt_decode_chunk={2},hrt_nat_beam={1}",
) -> str:  # fmt: skip
    """hrt in chunks; ``way`` has the options in the order of the published identity."""
    way = f"task=translation_hrt,{way.format(*beams, chunk)}"
    return system(f"{name} ({beams[0]} {beams[1]})", entry, way, *map(best, tuned), engine=engine)


def hrt_ways(
    name: str, entry: str, chunk: Any, beams: Sequence[Tuple[int, int]] = ((5, 5), (5, 1), (1, 1)),
    **more: str,
) -> List[str]:  # fmt: skip
    """The same with several beams, whose options were chosen for the entry."""
    return [
        hrt(name, entry, chunk, own, *[f"{entry}-tuned-5-{own[1]}"] * (own[0] > 1), **more)
        for own in beams
    ]


def ib(name: str, entry: str, beam: int, *options: str, engine: str = EXACT) -> str:
    """A bidirectional model."""
    way = f"task=translation_bidirectional,beam={beam},{WINDOW}"
    return system(name, entry, way, *options, engine=engine)


def ib_ways(
    title: str, entry: str, *options: str, tuned: str = "", engine: str = EXACT, ends: str = ""
) -> List[str]:
    """The same with a beam, whose options the entry ``tuned`` chose, and greedily; ``ends`` are
    behind the names."""
    chosen = best(tuned or f"{entry}-tuned")
    beam = ib(f"{title} beam 4{ends}", entry, 4, *options, chosen, engine=engine)
    return [beam, ib(f"{title} greedy{ends}", entry, 1, *options, engine=engine)]


def dag(name: str, entry: str, strategy: str, *options: str, engine: str = EXACT) -> str:
    """A graph."""
    way = f"task=translation_dag,dag_decode_strategy={strategy}"
    return system(name, entry, way, *options, engine=engine)


def dag_ways(title: str, entry: str, tuned: Mapping[str, str], engine: str = EXACT) -> List[str]:
    """The same greedily, and by the strategies whose options entries chose."""
    found = [dag(f"{title} greedy", entry, "greedy", engine=engine)]
    for strategy, name in tuned.items():
        found.append(dag(f"{title} {strategy}", entry, strategy, best(name), engine=engine))
    return found
