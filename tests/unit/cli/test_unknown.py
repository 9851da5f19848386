"""Lines that a model does not know are named, a few of them, and counted; the verb's own test is in
test_translate.py."""

import logging
from types import SimpleNamespace

import pytest

from fairseq_hrt.cli.unknown import LONGEST, NAMED, UnknownWords
from fairseq_hrt.native.text.pipeline import TextPipeline
from fairseq_hrt.native.text.recipe import TextRecipe

BUNDLE = SimpleNamespace(source_lang="de", target_lang="en")


def model_that_lacks(unknown, prefix=None, words=()):
    recipe = TextRecipe("de", "en", "space", "none", source_prefix=prefix)
    return SimpleNamespace(
        mostly_unknown=unknown, pipeline=TextPipeline(recipe, known=words),
        source=SimpleNamespace(words=words), bundle=BUNDLE,
    )  # fmt: skip


@pytest.mark.parametrize(
    "lines, told", [(0, 0), (1, 1), (NAMED, NAMED), (NAMED + 1, NAMED + 1), (100, NAMED + 1)]
)
def test_how_much_is_told(lines, told, caplog):
    found = UnknownWords(model_that_lacks(lambda text: [text]), "x")
    with caplog.at_level(logging.WARNING):
        for start in range(0, lines, 7):
            found.look(["q"] * min(7, lines - start), start)
        found.sum_up()
    assert len(caplog.messages) == told


def test_long_words_are_cut(caplog):
    model = model_that_lacks(lambda text: [text, "short"])
    UnknownWords(model, "x").look(["q" * 3000], 0)
    assert caplog.messages[0].endswith(f" {'q' * LONGEST}…, short")


def test_language_tokens_that_the_model_lacks(caplog):
    """Such lines are translated into the default language: who mistypes a token is told."""
    words = ("a", ">>eng<<", ">>fra<<")
    found = UnknownWords(model_that_lacks(lambda text: [], ">>eng<<", words), "x")
    found.look([">>fra<< a", "a >>de<<", " >>d\x1b<< a", "a"], 0)
    assert caplog.messages == [
        "x, line 3: >>d\\x1b<< is not one of the model's language tokens (>>eng<<, >>fra<<), so it"
        " is translated as text, into en"
    ]
    found.look([">>de<< a"] * 4, 4)
    found.sum_up()
    assert len(caplog.messages) == NAMED + 1
    assert caplog.messages[-1] == "x: 5 lines begin with a language token that the model lacks"
    # Of other models it is text like any other.
    for prefix in (None, "__en__"):
        other = UnknownWords(model_that_lacks(lambda text: [], prefix, words), "x")
        other.look([">>de<< a"], 0)
        assert other.tokens == 0
