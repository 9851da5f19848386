"""Gives the tests the modules of `examples/study`, which is a folder of scripts."""

import importlib
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Iterator

import pytest

STUDY = Path(__file__).resolve().parents[3] / "examples" / "study"
MODULES = ("analyses", "claims", "figures", "matrix", "runner", "steps", "store", "study", "tables")


@pytest.fixture(scope="session")
def study() -> Iterator[SimpleNamespace]:
    """The driver's modules, importable by their own names as in a script run."""
    sys.path.insert(0, str(STUDY))
    try:
        yield SimpleNamespace(folder=STUDY, **{name: importlib.import_module(name) for name in MODULES if name != "study"},
                              command=importlib.import_module("study"))  # fmt: skip
    finally:
        sys.path.remove(str(STUDY))
