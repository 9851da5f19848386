"""Gives the tests the modules of `examples/corpus`, which is a folder of scripts."""

import importlib
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Iterator

import pytest

CORPUS = Path(__file__).resolve().parents[3] / "examples" / "corpus"
MODULES = (
    "english",
    "generate",
    "german",
    "german_syntax",
    "grammar",
    "lexicon",
    "modifiers",
    "nouns",
    "sentence",
    "verbs",
)


@pytest.fixture(scope="session")
def corpus() -> Iterator[SimpleNamespace]:
    """The generator's modules, importable by their own names as in a script run."""
    sys.path.insert(0, str(CORPUS))
    try:
        yield SimpleNamespace(
            folder=CORPUS, **{name: importlib.import_module(name) for name in MODULES}
        )
    finally:
        sys.path.remove(str(CORPUS))


@pytest.fixture(scope="session")
def items(corpus: SimpleNamespace) -> list:
    """1200 sampled sentences with their sources and canonical translations."""
    stream = corpus.generate.sample_items(seed=7)
    return [next(stream) for _ in range(1200)]
