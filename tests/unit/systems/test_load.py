"""Which engine decodes a system."""

import pytest

from fairseq_hrt.systems import ctranslate2_system, load, runtime_system
from fairseq_hrt.systems.load import load_system, load_watched
from fairseq_hrt.systems.specification import SystemSpec

DATA = ["data", "--gen-subset", "test"]


def spec_of(engine):
    return SystemSpec("a", "a.pt", None, {}, engine)


@pytest.fixture
def engines(monkeypatch):
    """Instead of the systems: the names of their classes with what they are made of."""
    for module, name in (
        (load, "FairseqSystem"),
        (ctranslate2_system, "CTranslate2System"),
        (runtime_system, "NativeSystem"),
    ):
        monkeypatch.setattr(module, name, lambda *given, name=name: (name, *given))


@pytest.mark.parametrize(
    "engine, expected", [("fairseq", "FairseqSystem"), ("ctranslate2", "CTranslate2System"), ("runtime", "NativeSystem")]
)
def test_the_engine_that_is_named(engines, engine, expected):
    assert load_system(spec_of(engine), DATA) == (expected, spec_of(engine), DATA)


def test_what_is_watched_tells_of_its_passes(engines):
    assert load_watched(spec_of("fairseq"), DATA)[0] == "FairseqSystem"
    assert load_watched(spec_of("runtime"), DATA)[0] == "NativeSystem"


def test_ctranslate2_cannot_be_watched():
    with pytest.raises(ValueError, match="system 'a': engine=ctranslate2 translates, but its steps cannot be watched"):
        load_watched(spec_of("ctranslate2"), DATA)
