"""Vocabularies in fairseq's order."""

import json

import numpy as np
import pytest
from imported_models import WORDS, pieces, train_pieces

from fairseq_hrt.native.conversion.vocabularies import (
    Vocabulary,
    by_number,
    load_sentencepiece,
    make_vocabulary,
    marian_vocabulary,
    require_pieces,
    specials_in,
)
from fairseq_hrt.native.text.dictionary import Words


def test_rows_get_fairseqs_order(tmp_path):
    rows = ["</s>", "<unk>", "b", "a", None, "\ud800", "\u3000", "<pad>"]
    assert make_vocabulary(rows, specials_in(rows), "v") == make_vocabulary(
        [*rows[:5], "two words", *rows[6:]], specials_in(rows), "v"
    )
    found = make_vocabulary(rows, specials_in(rows), "v")
    assert (
        found.words == ("b", "a", "madeupword0004", "madeupword0005", "\u3000") and found.size == 8
    )
    assert found.rows == (-1, 7, 0, 1, 2, 3, 4, 5, 6)
    assert found.ids()[2] == 4
    matrix = np.arange(16.0).reshape(8, 2)
    moved = found.reordered(matrix, -5.0)
    assert moved[0].tolist() == [-5.0, -5.0] and np.array_equal(
        moved[1:], matrix[list(found.rows[1:])]
    )
    assert found.reordered(matrix[:, 0]).dtype == np.float32
    found.save(tmp_path / "dict.de.txt")
    words = Words(tmp_path / "dict.de.txt")
    assert words.ids(["b", "a", "\u3000", "x"]) == [4, 5, 8, 3] and len(words) == len(found.rows)


@pytest.mark.parametrize(
    "rows, message",
    [(["</s>", "a"], "no <unk>"), (["<unk>"], "no </s>"), (["</s>", "<unk>", "a", "a"], "twice")],
)
def test_vocabularies_that_are_none(rows, message):
    with pytest.raises(ValueError, match=message):
        make_vocabulary(rows, specials_in(rows), "v")


@pytest.mark.parametrize("number", [-1, 1.5, "x", None, True, 9, "1", [1]])
def test_numbers_that_are_none(number):
    with pytest.raises(ValueError, match="v gives"):
        by_number({"a": 1, "b": number}, 3, "v")
    if number == 9:
        assert by_number({"a": 1, "b": number}, 3, "v", truncate=True) == [None, "a", None]


def test_all_kinds_of_marians_vocabularies_are_one(tmp_path, sentencepiece_model):
    names = pieces(sentencepiece_model)
    (tmp_path / "v.spm").write_bytes(sentencepiece_model.read_bytes())
    table = {
        (
            "</s>"
            if name == "<unk>"
            else "<unk>"
            if name == "<s>"
            else "x"
            if name == "</s>"
            else name
        ): n
        for n, name in enumerate(names)
    }
    (tmp_path / "v.json").write_text(json.dumps(table))
    (tmp_path / "v.yml").write_text(
        "".join(f"{json.dumps(word)}: {number}\n" for word, number in table.items())
    )
    (tmp_path / "v.txt").write_text("".join(f"{word}\n" for word in table))
    spm, *others = [
        marian_vocabulary(tmp_path / f"v.{kind}", len(names))
        for kind in ("spm", "json", "yml", "txt")
    ]
    assert others[0] == others[1] == others[2] and others[0].words[1:] == spm.words
    assert spm.rows[:4] == (1, -1, 2, 0) and spm.words == tuple(names[3:])
    # Marian's dim-vocabs cuts what stands behind.
    assert marian_vocabulary(tmp_path / "v.yml", 10).words == others[0].words[:8]
    with pytest.raises(ValueError, match="belongs to another model"):
        marian_vocabulary(tmp_path / "v.spm", len(names) + 1)
    (tmp_path / "bad.yml").write_text("[1]")
    with pytest.raises(ValueError, match="not a table"):
        marian_vocabulary(tmp_path / "bad.yml", 3)


@pytest.mark.parametrize("content", [b"", b"text", b"\x00" * 100])
def test_other_files_are_no_sentencepiece_models(tmp_path, content):
    (tmp_path / "v.spm").write_bytes(content)
    with pytest.raises(ValueError, match="not a SentencePiece model"):
        load_sentencepiece(tmp_path / "v.spm")


def test_pieces_that_the_model_lacks(tmp_path, caplog):
    words = [*WORDS, "10\xa0000"]
    path = train_pieces(tmp_path, words=words, normalization_rule_name="identity")
    own = pieces(path)[3:]
    spaced = [piece for piece in own if "\xa0" in piece]
    plain = [piece for piece in own if piece not in spaced]

    def warnings(words):
        caplog.clear()
        require_pieces(path, Vocabulary(tuple(words), (), 0))
        return " ".join(record.getMessage() for record in caplog.records)

    # Such as did not occur in the training.
    assert spaced and warnings(plain) == ""
    assert f"{len(spaced)} pieces have white space inside" in warnings(own)
    assert "are not in the model's vocabulary: does" in warnings(plain[len(plain) // 4 :])
    with pytest.raises(ValueError, match="the file belongs to another model"):
        warnings(plain[: len(plain) // 3])
