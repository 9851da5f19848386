"""Words for <unk> where the source is raw text."""

import pytest

from fairseq_hrt.hub.replacement import whole_words, with_words

LINES = {
    "subword-nmt": ["ein", "Ze@@", "br@@", "a", "."],
    "sentencepiece": ["▁ein", "▁Ze", "br", "a", "▁."],
    "none": ["ein", "Zebra", "."],
}


@pytest.mark.parametrize("scheme", LINES)
def test_subwords_know_their_word(scheme):
    words, numbers = whole_words(LINES[scheme], scheme)
    assert words == ["ein", "Zebra", "."]
    assert numbers == ([0, 1, 2] if scheme == "none" else [0, 1, 1, 1, 2])


@pytest.mark.parametrize("scheme, mark", [("subword-nmt", ""), ("sentencepiece", "▁"), ("none", "")])
def test_whole_words_are_written(scheme, mark):
    source = LINES[scheme]
    # Two parts of one word, and </s>.
    alignment = [0, 1, min(2, len(source) - 2), len(source)]

    def written(lexicon):
        return with_words(["one", "<unk>", "<unk>", "</s>"], alignment, source, scheme=scheme, lexicon=lexicon, unknown="<unk>")

    assert written({}) == ["one", mark + "Zebra", "</s>"]
    assert written({"Zebra": "zebra"}) == ["one", mark + "zebra", "</s>"]


def test_a_cut_off_word_and_an_empty_line():
    assert whole_words(["br@@"], "subword-nmt") == (["br"], [0])
    assert with_words(["<unk>", "</s>"], [0, 0], [], scheme="none", lexicon={}, unknown="<unk>") == ["<unk>", "</s>"]
