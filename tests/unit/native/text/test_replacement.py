"""Words for <unk> where the source is raw text."""

import pytest

from fairseq_hrt.native.text.replacement import read_lexicon, whole_words, with_words

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


@pytest.mark.parametrize(
    "scheme, mark", [("subword-nmt", ""), ("sentencepiece", "▁"), ("none", "")]
)
def test_whole_words_are_written(scheme, mark):
    source = LINES[scheme]
    # Two parts of one word, and </s>.
    alignment = [0, 1, min(2, len(source) - 2), len(source)]

    def written(lexicon):
        return with_words(
            ["one", "<unk>", "<unk>", "</s>"],
            alignment,
            source,
            scheme=scheme,
            lexicon=lexicon,
            unknown="<unk>",
        )

    assert written({}) == ["one", mark + "Zebra", "</s>"]
    assert written({"Zebra": "zebra"}) == ["one", mark + "zebra", "</s>"]


def test_a_cut_off_word_and_an_empty_line():
    assert whole_words(["br@@"], "subword-nmt") == (["br"], [0])
    assert with_words(
        ["<unk>", "</s>"], [0, 0], [], scheme="none", lexicon={}, unknown="<unk>"
    ) == ["<unk>", "</s>"]


def test_language_tokens_are_not_written():
    written = with_words(
        ["<unk>", "<unk>"], [0, 1], ["en_XX", "▁a"],
        scheme="sentencepiece", lexicon={}, unknown="<unk>", first=1,
    )  # fmt: skip
    assert written == ["<unk>", "▁a"]


def test_words_for_unknown_ones():
    source, lexicon = "the big zebra".split(), {"zebra": "Zebra", "big": "gross"}

    def replaced(text, alignment):
        return " ".join(
            with_words(
                text.split(), alignment, source, scheme="none", lexicon=lexicon, unknown="<unk>"
            )
        )

    assert replaced("das <unk> <unk>", [0, 1, 2]) == "das gross Zebra"
    assert replaced("<unk> grosse <unk>", [0, 1, 2]) == "the grosse Zebra"
    # Two for one word, and one that looks at the end of the source.
    assert replaced("<unk> <unk> x <unk>", [2, 2, 0, 2]) == "Zebra x Zebra"
    assert replaced("<unk> </s>", [3, 3]) == "<unk> </s>"


def test_lexicons(tmp_path):
    path = tmp_path / "lexicon"
    path.write_text("zebra Zebra 0.9\n\nä ö\n", encoding="utf-8-sig")
    assert read_lexicon(str(path)) == {"zebra": "Zebra", "ä": "ö"} and read_lexicon("") == {}
    path.write_text("a b\nalone\n")
    with pytest.raises(ValueError, match="--replace-unk .* line 2: 'alone'"):
        read_lexicon(str(path))
    with pytest.raises(ValueError, match="--replace-unk .*cannot be read"):
        read_lexicon(str(tmp_path / "missing"))
