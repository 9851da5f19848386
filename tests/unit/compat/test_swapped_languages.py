"""The repair `swapped-languages`: a checkpoint stores its languages, and is not decoded with both
swapped."""

import types
from argparse import Namespace

import pytest

from fairseq_hrt.compat.swapped_languages import REPAIR


def languages(source, target):
    return Namespace(source_lang=source, target_lang=target)


def loaded(trained, decoded):
    module = types.ModuleType("fairseq.checkpoint_utils")
    module.load_model_ensemble_and_task = lambda files, overrides=None, task=None: (
        [], {"task": trained}, task
    )  # fmt: skip
    REPAIR.apply(module)
    return module.load_model_ensemble_and_task(["a.pt"], task=Namespace(cfg=decoded))


def test_swapped_languages_are_refused():
    advice = "a.pt was trained from en to de, not from de to en: swap --source-lang and "
    with pytest.raises(ValueError, match=advice):
        loaded(languages("en", "de"), languages("de", "en"))


@pytest.mark.parametrize(
    "trained, decoded",
    [
        (("en", "de"), ("en", "de")),
        # Files may have other names.
        (("en", "de"), ("src", "tgt")),
        (("en", "en"), ("en", "en")),
        ((None, None), (None, None)),
        ((None, None), ("de", "en")),
    ],
)
def test_others_are_not(trained, decoded):
    assert loaded(languages(*trained), languages(*decoded))[0] == []
    assert loaded(Namespace(), languages(*decoded))[0] == []


@pytest.mark.parametrize(
    "given, stored",
    [
        ({"source_lang": None, "target_lang": None}, {"source_lang": "en", "target_lang": "de"}),
        ({"source_lang": "eng", "target_lang": None}, {"source_lang": "eng", "target_lang": "de"}),
        # A task without languages, and one whose options have another type.
        ({"data": "a"}, {"data": "a"}),
        (Namespace(source_lang=None), Namespace(source_lang=None)),
    ],
)
def test_languages_of_file_names_are_stored(given, stored):
    module = types.ModuleType("fairseq.trainer")
    module.Trainer = type("Trainer", (), {"state_dict": lambda self: {"cfg": {"task": given}}})
    module.Trainer.task = Namespace(cfg=languages("en", "de"))
    REPAIR.apply(module)
    assert module.Trainer().state_dict()["cfg"]["task"] == stored
