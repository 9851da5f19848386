"""Gives the tests the modules of `examples/study`, which is a folder of scripts."""

import importlib
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Iterator

import pytest

STUDY = Path(__file__).resolve().parents[3] / "examples" / "study"
MODULES = (
    "analyses",
    "claims",
    "figures",
    "matrix",
    "outcomes",
    "publish",
    "runner",
    "steps",
    "store",
    "study",
    "tables",
)


REFERENCES = [
    "ein hund läuft über die straße .",
    "zwei frauen sitzen im park .",
    "ein kind spielt mit einem ball .",
] * 4
GOOD = [line.replace("ball", "hund") for line in REFERENCES]
BAD = [" ".join(reversed(line.split())) for line in REFERENCES]


@pytest.fixture(scope="session")
def study() -> Iterator[SimpleNamespace]:
    """The driver's modules, importable by their own names as in a script run."""
    sys.path.insert(0, str(STUDY))
    try:
        yield SimpleNamespace(folder=STUDY,
                              **{name: importlib.import_module(name) for name in MODULES if name != "study"},
                              command=importlib.import_module("study"))  # fmt: skip
    finally:
        sys.path.remove(str(STUDY))


def measured_system(name, bleu, milliseconds):
    seconds = [[milliseconds / 1000, milliseconds / 500]] * 3
    timings = {
        size: {"batches": [[0], [1, 2]], "seconds": seconds, "decoder_calls": 8}
        for size in ("1", "32")
    }
    quality = {
        "bleu": bleu,
        "bleu_signature": "b",
        "chrf": bleu + 20,
        "chrf_signature": "c",
        "length_ratio": 1.01,
        "valid_share": None,
    }
    return {"name": name, "quality": quality, "timings": timings, "identical": int(bleu)}


@pytest.fixture
def made(study, tmp_path):
    """A study in which ``t`` and ``m`` are finished and ``later`` is not; and its matrix."""
    train = {"kind": "train", "data": "d"}
    raw = {
        "reference_speed": "t/B",
        "titles": {"main": "First"},
        "entry": [
            {"name": "start", **train, "options": {"max-update": 50}},
            {"name": "moved", "kind": "command", "command": ["cp", "${start}/model.pt"],
             "result": "model.pt"},
            {"name": "m", **train,
             "options": {"max-update": 100, "finetune-from-model": "${moved}/model.pt"}},
            {"name": "data", "kind": "prepare", "script": "x"},
            {"name": "t", "kind": "benchmark", "data": "d", "systems": ["A", "B"],
             "options": {"references": "${data}/test"}},
            {"name": "later", "like": "t", "systems": ["A"]},
        ],
        "row": [
            {"table": "main", "label": "AT", "test": "t", "system": "A", "model": "m",
             "speed": "t/A", "paper": "27.3 | 26.8"},
            {"table": "main", "label": "student", "test": "t", "system": "B", "against": "AT",
             "speed": "t/B", "seeds": ["t", "later"]},
            {"table": "late", "label": "AT", "test": "later", "system": "A"},
            {"table": "main", "label": "other", "test": "later", "system": "A", "against": "AT",
             "model": "start"},
        ],
    }  # fmt: skip
    entries = study.matrix.resolve(raw)
    store = study.store.Store(tmp_path)
    by_name = {entry.name: entry for entry in entries}
    for name in ("start", "moved", "m", "t", "data"):
        folder = store.prepare(by_name[name])
        attempt = {
            "seconds": 90,
            "cpu_seconds": 30,
            "processor": "P",
            "cores": 2,
            "threads": 2,
            "commit": "c" * 40 + "+",
        }
        store.write(by_name[name], {"state": "finished", "attempts": [attempt] * 2})
        lines = (
            "epoch 001:     20 / 25 loss=9, num_updates=20, lr=1",
            "epoch 002:     5 / 25 loss=8, num_updates=30, lr=1",
        )
        (folder / "log").write_text("\n".join(lines) + "\n")
    folder = store.path(by_name["t"])
    (store.path(by_name["data"]) / "test").write_text("".join(line + "\n" for line in REFERENCES))
    (folder / "results.json").write_text(
        json.dumps({"systems": [measured_system("A", 60.5, 10), measured_system("B", 30.25, 20)]})
    )
    for number, name, lines in ((1, "A", GOOD), (2, "B", BAD)):
        (folder / f"translations_{number}_{name}.txt").write_text(
            "".join(line + "\n" for line in lines)
        )
    return raw, entries, store


@pytest.fixture(scope="session")
def lines():
    """Lines of a test set: references, good and bad translations."""
    return SimpleNamespace(references=REFERENCES, good=GOOD, bad=BAD)


@pytest.fixture(scope="session")
def system():
    """What a benchmark writes of a system, of its name, BLEU and milliseconds."""
    return measured_system
