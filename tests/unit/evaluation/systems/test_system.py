"""What every system has from its base, those of fairseq's tasks, and which engine decodes one."""

import logging
from types import SimpleNamespace

import pytest
import torch
from fairseq.data import Dictionary
from torch import nn

from fairseq_hrt.evaluation import systems
from fairseq_hrt.evaluation.systems import (
    FairseqSystem,
    System,
    SystemSpec,
    count_calls,
    ctranslate2_system,
    load_system,
    load_watched,
    native_system,
)

DATA = ["data", "--gen-subset", "test"]


def make_system(kind=System, **own):
    """A system that nothing was loaded for."""
    made = object.__new__(kind)
    made.__dict__.update(own)
    return made


def test_how_long_sources_may_be():
    models = [
        SimpleNamespace(max_positions=lambda: (30, 50)),
        SimpleNamespace(max_positions=lambda: (40, 20)),
    ]
    judge = SimpleNamespace(rescorer=SimpleNamespace(judge=SimpleNamespace(longest_source=25)))
    assert make_system().longest_source is None
    for generator, expected in (
        (SimpleNamespace(), 30),
        (SimpleNamespace(rescorer=None), 30),
        (judge, 25),
    ):
        made = make_system(FairseqSystem, models=models, generator=generator)
        assert made.longest_source == expected


def test_sentences_are_loaded_when_they_are_first_asked_for():
    loads, datasets = [], {}

    def load(subset, *, task_cfg):
        loads.append((subset, task_cfg))
        datasets[subset] = ["a sentence"]

    task = SimpleNamespace(datasets=datasets, load_dataset=load, dataset=datasets.__getitem__)
    made = make_system(task=task, subset="test", read_as="of the training")
    assert loads == []
    assert made.dataset == made.dataset == ["a sentence"] and loads == [("test", "of the training")]


def test_words_without_special_symbols():
    dictionary = Dictionary()
    for word in ("un@@", "der", "\u2581a", "b", "\u2581c", "ge@@"):
        dictionary.add_symbol(word)
    task = SimpleNamespace(target_dictionary=dictionary)

    def text(post_process, *words, **own):
        config = SimpleNamespace(common_eval=SimpleNamespace(post_process=post_process))
        made = make_system(task=task, config=config, **own)
        return made.text([dictionary.index(word) for word in words])

    assert text(None, "un@@", "der", "b", "</s>") == "under b", (
        "the subwords of BPE are joined unless it is said otherwise"
    )
    assert text("sentencepiece", "\u2581a", "b", "\u2581c", "</s>") == "ab c"
    pieces = Dictionary()
    for word in ("\u2581a", "b", "\u2581c", "d@@"):
        pieces.add_symbol(word)
    config = SimpleNamespace(common_eval=SimpleNamespace(post_process=None))
    made = make_system(task=SimpleNamespace(target_dictionary=pieces), config=config)
    assert made.text([4, 5, 6]) == "ab c", "SentencePiece's if most marks are SentencePiece's"
    # A generator may write more symbols that are no words.
    strip = {dictionary.eos(), dictionary.bos(), dictionary.index("b")}
    generator = SimpleNamespace(symbols_to_strip_from_output=strip)
    assert text(None, "<s>", "b", "der", "</s>", generator=generator) == "der"


def spec_of(engine):
    return SystemSpec("a", "a.pt", None, {}, engine)


@pytest.fixture
def engines(monkeypatch):
    """Instead of the systems: the names of their classes with what they are made of."""

    def made(name):
        return lambda *given: SimpleNamespace(
            made=(name, *given), engine="native", dtype="int8", generator=None
        )

    for module, name in (
        (systems, "FairseqSystem"),
        (ctranslate2_system, "CTranslate2System"),
        (native_system, "NativeSystem"),
    ):
        monkeypatch.setattr(module, name, made(name))


def test_the_engine_that_is_named(engines, caplog):
    """With ``auto`` the task chooses, as in ``fairseq-generate``; what is watched tells of its
    passes. One line names engine and weights."""
    for engine, name in (
        ("torch", "FairseqSystem"),
        ("auto", "FairseqSystem"),
        ("ctranslate2", "CTranslate2System"),
        ("native", "NativeSystem"),
    ):
        caplog.clear()
        with caplog.at_level(logging.INFO):
            assert load_system(spec_of(engine), DATA).made == (name, spec_of(engine), DATA)
        assert caplog.messages == ["a: decoding with the native engine: int8 weights"]
    for engine, name, decoded in (
        ("torch", "FairseqSystem", "torch"),
        ("auto", "FairseqSystem", "torch"),
        ("native", "NativeSystem", "native"),
    ):
        assert load_watched(spec_of(engine), DATA).made == (name, spec_of(decoded), DATA)


def test_ctranslate2_cannot_be_watched():
    with pytest.raises(
        ValueError,
        match="system 'a': engine=ctranslate2 does not report its decoder passes",
    ):
        load_watched(spec_of("ctranslate2"), DATA)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Linear(2, 2)
        self.decoder = nn.Linear(2, 2)


def test_direct_calls_of_forward_are_counted():
    models = [Model(), Model()]
    counters = count_calls(models)
    x = torch.ones(1, 2)
    expected = nn.functional.linear(x, models[0].decoder.weight, models[0].decoder.bias)
    # fairseq's ensemble calls forward itself; others call the module.
    assert torch.equal(models[0].decoder.forward(x), expected)
    models[0].decoder(x)
    models[1].decoder(x)
    models[1].encoder(x)
    assert (counters.encoder_calls, counters.decoder_calls) == (1, 3)
    counters.reset()
    assert (counters.encoder_calls, counters.decoder_calls) == (0, 0)
