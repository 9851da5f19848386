"""Rules of languages: taken from sacremoses, kept in a file, and refused when they are damaged."""

import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_hrt.native.text.moses_rules import MosesRules, _ranges, is_member


def test_rules_are_kept_in_a_file(tmp_path):
    rules = MosesRules.from_sacremoses("en", "de")
    rules.save(tmp_path / "moses.json")
    assert MosesRules.load(tmp_path / "moses.json") == rules
    assert (tmp_path / "moses.json").stat().st_size < 40_000


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.update(format=2), lambda d: d.pop("alpha"), lambda d: d.update(more=1),
        lambda d: d.update(alnum=[3, 1]), lambda d: d.update(number=[48]),
        lambda d: d.update(lower=[0, 0x110000]), lambda d: d.update(prefixes=[1]),
        lambda d: d.update(currency="$"), lambda d: d.update(language=["en"]),
        lambda d: d.update(target_alpha=[True, 5]), lambda d: d.update(alpha=[]),
        lambda d: d.update(number=[]), lambda d: d.update(number=[0x660, 0x669]),
        lambda d: d.update({"\x1b[2J": 1}),
    ],
)  # fmt: skip
def test_damaged_rules_are_refused(tmp_path, change):
    path = tmp_path / "moses.json"
    MosesRules.from_sacremoses("en", "de").save(path)
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))
    with pytest.raises(ValueError, match="does not hold Moses' rules of text") as refused:
        MosesRules.load(path)
    assert str(refused.value).isprintable()
    path.write_text("[" * 100_000)
    with pytest.raises(ValueError, match="does not hold Moses' rules"):
        MosesRules.load(path)


@given(
    st.lists(st.text(st.sampled_from("abcdexyz\u4e2d\u4e2e"), max_size=6), max_size=3),
    st.integers(0x60, 0x7F) | st.integers(0x4E2B, 0x4E30),
)
def test_ranges_hold_the_characters_that_they_are_made_of(signs, code):
    ends = _ranges("".join(signs))
    assert is_member(ends, code) == (chr(code) in "".join(signs))
    # As few as there can be.
    assert list(ends) == sorted(ends) and all(
        last + 1 < first for last, first in zip(ends[1::2], ends[2::2])
    )


def test_classes_are_those_of_sacremoses():
    from sacremoses import MosesDetokenizer, MosesTokenizer

    rules, tokenizer = MosesRules.from_sacremoses("de", "en"), MosesTokenizer(lang="de")
    for ends, signs in (
        (rules.alpha, tokenizer.IsAlpha),
        (rules.lower, tokenizer.IsLower),
        (rules.currency, MosesDetokenizer.IsSc),
    ):
        known = set("".join(signs))
        for code in (*range(0x600), 0x20AC, 0x4E2D, 0xFFFF):
            assert is_member(ends, code) == (chr(code) in known), chr(code)
    assert rules.language == "de" and rules.target_language == "en"
    assert "Dr" in rules.prefixes and set(rules.numeric_prefixes) <= set(rules.prefixes)


def test_without_sacremoses(monkeypatch):
    monkeypatch.setitem(sys.modules, "sacremoses", None)
    with pytest.raises(ValueError, match="pip install sacremoses"):
        MosesRules.from_sacremoses("de", "en")
