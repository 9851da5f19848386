"""Where guesses come from: earlier translations, the source, other models and which of them are
taken."""

from functools import partial
from types import SimpleNamespace

import pytest
import torch
from fairseq.data import Dictionary
from omegaconf import OmegaConf

from fairseq_hrt.engine import models
from fairseq_hrt.jacobi import drafts as module
from fairseq_hrt.jacobi.drafts import ModelDrafter, NGramDrafter, SourceDrafter, load_draft_model


@pytest.mark.parametrize("wrong", [None, "source", "target", "language", "task", "option", "text"])
def test_which_drafts_are_taken(tiny, monkeypatch, wrong):
    """Same dictionaries, the named family, known options; the checkpoint is read once."""
    other = Dictionary()
    dictionary, read = tiny.dictionary(), []
    config = OmegaConf.create(
        {
            "_name": "translation_hrt" if wrong != "task" else "translation_dag",
            "data": "x",
            "source_lang": "fr" if wrong == "language" else "nl",
            "hrt_nat_beam": 1,
            "hrt_decode_chunk": "2",
        }
    )
    state, built = {"cfg": OmegaConf.create({"task": config})}, []
    task = SimpleNamespace(
        source_dictionary=other if wrong == "source" else dictionary,
        target_dictionary=other if wrong == "target" else dictionary,
    )
    model = torch.nn.Linear(1, 1)
    monkeypatch.setattr(models, "read_checkpoint", lambda path: read.append(path) or state)
    monkeypatch.setattr(models.tasks, "setup_task", lambda config: built.append(config) or task)

    def load(paths, *, task, state):
        assert state is not None
        return [model], None

    monkeypatch.setattr(models.checkpoint_utils, "load_model_ensemble", load)
    options = {"option": "{'gamma': 1}", "text": "[1]"}.get(wrong, "{'hrt_nat_beam': 2}")
    beside = SimpleNamespace(data="here", source_lang="nl", target_lang="en")
    arguments = dict(beside=beside, source=dictionary, target=dictionary, options=options)
    if wrong is None:
        assert load_draft_model("a.pt", "hrt", **arguments) == (task, [model])
        (config,) = built
        assert not model.training and config.data == "here" and read == ["a.pt"]
        assert (config.source_lang, config.target_lang) == ("nl", "en")
        # From the user, from the training, and the rest by default.
        assert (config.hrt_nat_beam, config.hrt_decode_chunk, config.hrt_eos_last_chunk) == (
            2,
            "2",
            False,
        )
        return
    message = {
        "source": "its source dictionary is not that of the model that is decoded",
        "target": "its target dictionary is not that of the model that is decoded",
        "language": (
            "--jacobi-draft-path a.pt: its source language is fr, that of the model that is"
            " decoded nl"
        ),
        "task": (
            "--jacobi-draft hrt with --jacobi-draft-path a.pt: the checkpoint belongs to the task"
            " translation_dag"
        ),
        "option": "the task translation_hrt has no decoding option gamma",
        "text": "is not a Python dictionary",
    }[wrong]
    with pytest.raises(ValueError, match=message):
        load_draft_model("a.pt", "hrt", **arguments)


def test_a_corrected_word_does_not_spoil_the_rest_of_the_draft():
    drafter = ModelDrafter(lambda net_input: [[5, 6, 7, 8, 9, 10, 2]])
    for verified, expected in (
        ([], [5, 6, 7]),
        ([5, 6, 11], [8, 9, 10]),
        ([5, 6, 11, 8], [9, 10, 2]),
        ([5, 6, 11, 8, 12, 9], [10, 2]),
        ([5, 6, 11, 8, 12, 9, 2], []),
    ):
        if not verified:
            drafter.begin({})
        assert drafter.propose(0, verified, [], 3) == expected
    drafter.begin({})
    # A word left out.
    assert drafter.propose(0, [5, 6, 8], [], 2) == [9, 10]


def test_ngram_drafts():
    drafter = NGramDrafter(longest=3, most=8)
    drafter.learn([5, 6, 7, 8, 2])
    assert drafter.propose(0, [4, 5, 6], [9], 2) == [7, 8]
    assert drafter.propose(0, [7], [9], 5) == [8, 2]
    assert drafter.propose(0, [12], [9], 5) == [9] and drafter.propose(0, [], [9], 5) == [9]
    drafter.learn([5, 6, 10, 2])
    assert drafter.propose(0, [5, 6], [], 5) == [10, 2]
    assert drafter.propose(0, [6, 7], [], 5) == [8, 2], "the longer context counts"
    drafter.forget()
    assert drafter.propose(0, [5, 6], [1], 5) == [1]
    drafter.learn([5, 6, 7, 8, 2])
    for number in range(20, 40):
        drafter.learn([number, number + 1, 2])
    assert len(drafter.following) == 8 and drafter.propose(0, [6, 7], [1], 5) == [1]


def test_source_drafts(tiny):
    dictionary = tiny.dictionary()
    drafter = SourceDrafter(dictionary)
    drafter.begin({"src_tokens": torch.tensor([[1, 5, 6, 7, 6, 8, 2]])})
    assert drafter.propose(0, [9, 6], [4], 2) == [7, 6]
    assert drafter.propose(0, [9, 9, 9, 6], [4], 2) == [8]
    assert drafter.propose(0, [8], [4], 2) == [4] and drafter.propose(0, [], [4], 2) == [4]


def test_a_graphs_draws_take_a_seed(monkeypatch):
    held = OmegaConf.create({"_name": "translation_dag", "dag_decode_strategy": "sample"})
    monkeypatch.setattr(
        module, "load_other_model", lambda option, path, *, choose, **more: choose(held)
    )
    options = "{'seed': 3}"
    assert load_draft_model(
        "draft.pt", "dag", beside=None, source=None, target=None, options=options
    ) == {"seed": 3}


def test_an_option_of_a_draft_has_an_effect(monkeypatch):
    """What its checkpoint holds besides is nobody's mistake."""
    held = OmegaConf.create(
        {"_name": "translation_hrt", "hrt_decode_chunk": None, "hrt_chunk_table": "9:1,inf:2"}
    )
    monkeypatch.setattr(
        module, "load_other_model", lambda option, path, *, choose, **more: choose(held)
    )
    load = partial(load_draft_model, "draft.pt", "hrt", beside=None, source=None, target=None)
    assert load(options="{'hrt_decode_chunk': '2'}") == {"hrt_decode_chunk": "2"}
    for name in ("hrt_curriculum_power", "truncate_source", "rescore_path", "engine", "data"):
        held[name] = None
        with pytest.raises(ValueError, match=f"translation_hrt has no decoding option {name}:"):
            load(options=f"{{'{name}': 'x'}}")
    with pytest.raises(
        ValueError,
        match="--jacobi-draft-options: --hrt-chunk-table 8:1,inf:2 has an effect only with",
    ):
        load(options="{'hrt_chunk_table': '8:1,inf:2'}")
