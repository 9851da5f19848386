"""Sentences to try a bundle with, and words that a model does not know."""

import json

import pytest
import torch
from fairseq.data import indexed_dataset
from hypothesis import given
from hypothesis import strategies as st
from tiny_models import write_bundle

import fairseq_hrt
from fairseq_hrt.export.examples import CHOSEN, LONG, SHORT, example_sentences
from fairseq_hrt.native.bundles.description import checked_examples
from fairseq_hrt.native.text.replacement import mostly_unknown, unknown_words


class Known:
    """A dictionary of small letters."""

    unk = 3

    def ids(self, words):
        return [9 if word.replace("@@", "").islower() else 3 for word in words]


@pytest.mark.parametrize("line, unknown", [
    ("a b c", []), ("X b c", []), ("X Y c", ["X", "Y"]), ("X .", ["X"]), ("X Y a b", []), ("", []),
    (". ! ?", []), ("X@@ a b", []), ("a@@ X b@@ Y c", ["aX", "bY"]),
])  # fmt: skip
def test_more_than_half_of_the_words(line, unknown):
    assert mostly_unknown(line.split(), Known(), "subword-nmt") == unknown


@pytest.mark.parametrize("line, unknown", [
    ("a b c", []), ("", []), ("X b c", ["X"]), ("a . b", ["."]), ("a@@ X@@ b Y c", ["aXb", "Y"]),
])  # fmt: skip
def test_every_word_of_which_a_part_is_unknown(line, unknown):
    assert unknown_words(line.split(), Known(), "subword-nmt") == unknown


@given(st.lists(st.sampled_from(["a", "b", "X", "Y", ".", "Z@@"])))
def test_what_is_named_is_unknown_and_most(symbols):
    found = mostly_unknown(symbols, Known(), "subword-nmt")
    assert all(word != word.lower() for word in found)
    if found:
        assert any(number == 3 for number in Known().ids(symbols)) and len(found) * 2 > len(found)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    return write_bundle(tmp_path_factory.mktemp("bundle") / "plain", "autoregressive")


def test_a_translator_tells_what_it_does_not_know(bundle):
    model = fairseq_hrt.from_pretrained(bundle.folder, device="cpu")
    assert (
        model.mostly_unknown("zebra b yak") == ["zebra", "yak"]
        and model.mostly_unknown("a b yak") == []
    )
    assert model.unknown_words("a b yak") == ["yak"]
    long = "zebra b " * 300
    taken = model.in_words(long)
    assert len(taken) == 600 and model.mostly_unknown(taken) == model.mostly_unknown(long)
    # Whoever has taken a line apart translates it as it is.
    assert model.translate([taken, model.in_words("")]) == model.translate([long, ""])


def test_examples_of_data(bundle, tmp_path):
    rows = [
        [4] * 3,
        [4, 5, 3, 6, 7, 8],
        *([4 + (number + place) % 10 for place in range(SHORT + number)] for number in range(10)),
        [4] * (LONG + 1),
    ]
    builder = indexed_dataset.make_builder(
        str(tmp_path / "valid.de-en.de.bin"), impl="mmap", vocab_size=20
    )
    for row in rows:
        builder.add_item(torch.tensor([*row, 2]))
    builder.finalize(str(tmp_path / "valid.de-en.de.idx"))
    found = example_sentences(bundle, tmp_path)
    assert len(found) == CHOSEN == len(set(found)) and found[0] == "a b c d e"
    assert all(SHORT <= len(text.split()) <= LONG for text in found)
    assert example_sentences(bundle, tmp_path / "nowhere") == []


def test_examples_are_in_the_description_and_the_card(tmp_path):
    def complete(bundle):
        bundle.examples = ["a 'b' c", "d `e` ``` f"]

    made = write_bundle(tmp_path / "with", "autoregressive", complete=complete)
    assert json.loads((made.folder / "bundle.json").read_text())["examples"] == made.examples
    assert fairseq_hrt.from_pretrained(made.folder, device="cpu").bundle.examples == made.examples
    card = (made.folder / "README.md").read_text()
    assert (
        "fairseq-hrt translate with --text 'd `e` ``` f'\n```" in card
        and """--text 'a '"'"'b'"'"' c'""" in card
    )


@given(st.lists(st.text(max_size=300), max_size=12))
def test_what_is_taken_is_short_and_printable(examples):
    try:
        found = checked_examples(examples, "x")
    except ValueError as error:
        assert "\n" not in str(error) and len(str(error)) < 500
    else:
        assert (
            found == examples
            and len(found) <= 10
            and all(one.isprintable() and 0 < len(one) <= 200 for one in found)
        )
