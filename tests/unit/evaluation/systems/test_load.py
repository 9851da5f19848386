"""Which engine decodes a system."""

import pytest

from fairseq_hrt.evaluation.systems import ctranslate2_system, load, native_system
from fairseq_hrt.evaluation.systems.load import load_system, load_watched
from fairseq_hrt.evaluation.systems.specification import SystemSpec

DATA = ["data", "--gen-subset", "test"]


def spec_of(engine):
    return SystemSpec("a", "a.pt", None, {}, engine)


@pytest.fixture
def engines(monkeypatch):
    """Instead of the systems: the names of their classes with what they are made of."""
    for module, name in (
        (load, "FairseqSystem"),
        (ctranslate2_system, "CTranslate2System"),
        (native_system, "NativeSystem"),
    ):
        monkeypatch.setattr(
            module, name, lambda *given, name=name, **more: (name, *given, *more.values())
        )


@pytest.mark.parametrize(
    "engine, expected",
    [
        ("torch", ("FairseqSystem", "torch")),
        ("auto", ("FairseqSystem", "auto")),
        ("ctranslate2", ("CTranslate2System",)),
        ("native", ("NativeSystem",)),
    ],
)
def test_the_engine_that_is_named(engines, engine, expected):
    """With ``auto`` the task chooses, as in ``fairseq-generate``."""
    name, *more = expected
    assert load_system(spec_of(engine), DATA) == (name, spec_of(engine), DATA, *more)


def test_what_is_watched_tells_of_its_passes(engines):
    assert load_watched(spec_of("torch"), DATA)[0] == "FairseqSystem"
    assert load_watched(spec_of("native"), DATA)[0] == "NativeSystem"


def test_ctranslate2_cannot_be_watched():
    with pytest.raises(
        ValueError,
        match="system 'a': engine=ctranslate2 translates, but its steps cannot be watched",
    ):
        load_watched(spec_of("ctranslate2"), DATA)
