"""What every system has from its base, and by itself."""

from types import SimpleNamespace

import pytest
import torch
from fairseq.data import Dictionary

from fairseq_hrt.engine import GenerationCounters
from fairseq_hrt.evaluation.systems import FairseqSystem, System, SystemSpec
from fairseq_hrt.evaluation.systems.ctranslate2_system import CTranslate2System
from fairseq_hrt.evaluation.systems.native_system import NativeSystem

OWN = ("reloadable", "model_bytes", "signature")
CPU = torch.device("cpu")


def make_system(task=None, post_process=None, **more):
    config = SimpleNamespace(
        dataset=SimpleNamespace(gen_subset="test"),
        common_eval=SimpleNamespace(post_process=post_process),
    )
    named = dict(
        task_name="translation", device=CPU, dtype="float32", counters=GenerationCounters()
    )
    return System(
        SystemSpec("AT", "a.pt", None, {}), config, task, "of the training", **named, **more
    )


def test_their_base_is_complete_when_it_is_made():
    made = make_system()
    assert (made.name, made.subset, made.models, made.generator) == ("AT", "test", [], None)


def test_how_long_sources_may_be():
    models = [
        SimpleNamespace(max_positions=lambda: (30, 50)),
        SimpleNamespace(max_positions=lambda: (40, 20)),
    ]
    judge = SimpleNamespace(rescorer=SimpleNamespace(judge=SimpleNamespace(longest_source=25)))
    assert make_system().longest_source is None
    assert make_system(models=models, generator=SimpleNamespace()).longest_source == 30
    assert make_system(models=models, generator=SimpleNamespace(rescorer=None)).longest_source == 30
    assert make_system(models=models, generator=judge).longest_source == 25


def test_sentences_are_loaded_when_they_are_first_asked_for():
    loads, datasets = [], {}

    def load(subset, *, task_cfg):
        loads.append((subset, task_cfg))
        datasets[subset] = ["a sentence"]

    made = make_system(
        SimpleNamespace(datasets=datasets, load_dataset=load, dataset=datasets.__getitem__)
    )
    assert loads == []
    assert made.dataset == made.dataset == ["a sentence"] and loads == [("test", "of the training")]


def test_words_without_special_symbols():
    dictionary = Dictionary()
    for word in ("un@@", "der", "\u2581a", "b", "\u2581c"):
        dictionary.add_symbol(word)
    task = SimpleNamespace(target_dictionary=dictionary)

    def text(made, *words):
        return made.text(torch.tensor([dictionary.index(word) for word in words]))

    made = make_system(task)
    assert text(made, "un@@", "der", "b", "</s>") == "under b", (
        "the subwords of BPE are joined unless it is said otherwise"
    )
    assert text(make_system(task, "sentencepiece"), "\u2581a", "b", "\u2581c", "</s>") == "ab c"
    # A generator may write more symbols that are no words.
    strip = {dictionary.eos(), dictionary.bos(), dictionary.index("b")}
    assert (
        text(
            make_system(task, generator=SimpleNamespace(symbols_to_strip_from_output=strip)),
            "<s>",
            "b",
            "der",
            "</s>",
        )
        == "der"
    )


@pytest.mark.parametrize("kind", [FairseqSystem, CTranslate2System, NativeSystem])
def test_every_system_has_what_its_base_leaves_to_it(kind):
    assert [name for name in OWN if getattr(kind, name) is getattr(System, name)] == []
