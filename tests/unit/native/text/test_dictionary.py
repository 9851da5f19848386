"""Dictionaries without fairseq: the ids that fairseq gives."""

import pytest

from fairseq_hrt.native.text.dictionary import SPECIAL, Words


def test_dictionaries_are_read_as_fairseq_reads_them(tmp_path):
    from fairseq.data import Dictionary

    path = tmp_path / "dict.de.txt"
    path.write_text(
        "a 9\nb b 3\n<unk> 2 #fairseq:overwrite\nc\u2028d 1\na 1 #fairseq:overwrite\n",
        encoding="utf-8",
    )
    expected, found = Dictionary.load(str(path)), Words(path)
    assert found.words == expected.symbols and len(found) == len(expected)
    for word in ["a", "b b", "x", "c\u2028d", "</s>", "<pad>"]:
        symbol = expected.index(word)
        assert found.ids([word]) == [expected.unk() if symbol < expected.nspecial else symbol]
    for content, message in (
        ("a 1\na 2\n", "the word 'a' again"),
        ("a\n", "not a word with its count"),
        ("a x\n", "not a word"),
    ):
        path.write_text(content)
        with pytest.raises(ValueError, match=message):
            Words(path)


def test_files_that_cannot_be_read(tmp_path):
    path = tmp_path / "dict.de.txt"
    with pytest.raises(ValueError, match="dict.de.txt cannot be read as a dictionary"):
        Words(path)
    path.write_bytes(b"\xff\xfe 1\n")
    with pytest.raises(ValueError, match="cannot be read as a dictionary"):
        Words(path)
    # The message is no longer than a line, whatever the file holds.
    path.write_text("x" * 10_000)
    with pytest.raises(ValueError, match="line 1 is") as caught:
        Words(path)
    assert len(str(caught.value)) < len(str(path)) + 200


def test_an_empty_dictionary_has_its_special_symbols(tmp_path):
    path = tmp_path / "dict.de.txt"
    path.write_text("")
    assert Words(path).words == list(SPECIAL) and Words(path).ids(["a", "</s>", ""]) == [3, 3, 3]
