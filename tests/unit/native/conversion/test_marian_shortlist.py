"""Marian's shortlists, binary ones and lexical tables."""

import gzip
import struct

import pytest
from imported_models import write_shortlist

from fairseq_hrt.native.conversion import marian_shortlist
from fairseq_hrt.native.conversion.marian_shortlist import is_binary, read_binary, read_table
from fairseq_hrt.native.conversion.vocabularies import make_vocabulary, specials_in

ROWS = ["</s>", "<unk>", "a", "b", "c", "d"]
WORDS = make_vocabulary(ROWS, specials_in(ROWS), "v")


def test_candidates_by_their_words(tmp_path):
    path = write_shortlist(tmp_path / "lex.bin", [[0], [], [4, 5], [2, 3], [], [1]], frequent=3)
    assert is_binary(path)
    # Special symbols are candidates anyway, and no words of a text.
    other = make_vocabulary([*ROWS, "e"], specials_in(ROWS), "v")
    assert read_binary(path, WORDS, other) == ["\ta", "a\tc d", "b\ta b", "d\t"]
    # With one vocabulary for both sides a source word is a candidate of its own.
    assert read_binary(path, WORDS, WORDS) == ["\ta", "a\tc d a", "b\ta b", "c\tc", "d\td"]
    (tmp_path / "text").write_text("a b 0.5\n")
    assert not is_binary(tmp_path / "text")


def changed(place, value):
    def change(content):
        return content[: 8 * place] + struct.pack("<Q", value) + content[8 * place + 8 :]

    return change


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content[:-1],
        lambda content: content[:40],
        lambda content: content[:-4] + struct.pack("<I", 6),
        changed(0, 1),
        changed(4, 1 << 60),
        changed(5, 1 << 60),
        changed(6, 1),
        changed(7, 1 << 60),
        changed(12, 3),
    ],
)
def test_damaged_ones_are_refused(tmp_path, change):
    path = write_shortlist(tmp_path / "lex.bin", [[0], [], [4, 5], [2, 3], [], [1]])
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(ValueError, match="lex.bin"):
        read_binary(path, WORDS, WORDS)


def test_those_of_another_model_are_refused(tmp_path):
    path = write_shortlist(tmp_path / "lex.bin", [[0]] * 5)
    with pytest.raises(ValueError, match="5 source words, but the model has 6"):
        read_binary(path, WORDS, WORDS)


@pytest.mark.parametrize("packed", [False, True])
def test_lexical_tables(tmp_path, packed):
    """The most probable candidates above a threshold; of a pair that appears twice the last
    line, as Marian does."""
    path = tmp_path / "lex.s2t.gz"
    text = (
        "a b 0.1\nNULL b 0.9\nx b 0.9\nc b 0.3\nd b 0.2\nb NULL 0.5\nb d 0.01\na b 0.4\n</s> b 1\n"
    )
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    other = make_vocabulary([*ROWS, "e"], specials_in(ROWS), "v")
    found = read_table(path, WORDS, other, frequent=4, best=2, least=0.02)
    assert found == ["\ta b", "b\ta c"]
    # With one vocabulary for both sides a word may stay as it is.
    found = read_table(path, WORDS, WORDS, frequent=0, best=2, least=0.0)
    assert found == ["\t", "a\ta", "b\ta c b", "c\tc", "d\tb d"]


@pytest.mark.parametrize(
    "content",
    [
        b"a b\n", b"a b c d\n", b"a b x\n", b"a b 2\n", b"a b nan\n", b"a b 0.5\n\n",
        b"\xff b 0.5\n", b"a" * 70000 + b" b 0.5\n", gzip.compress(b"a b 0.5\n" * 99, mtime=0)[:-12],
        b"\x1f\x8b", gzip.compress(b"a" * (1 << 20), mtime=0),
    ],
)  # fmt: skip
def test_tables_that_are_none(tmp_path, content):
    (tmp_path / "lex.s2t").write_bytes(content)
    with pytest.raises(ValueError, match=r"lex\.s2t.*shortlist of Marian"):
        read_table(tmp_path / "lex.s2t", WORDS, WORDS, frequent=1, best=1, least=0.0)


def test_tables_of_other_models_and_endless_ones(tmp_path, monkeypatch):
    (tmp_path / "lex.s2t").write_text("x y 0.5\n")
    with pytest.raises(ValueError, match="none of the model's words"):
        read_table(tmp_path / "lex.s2t", WORDS, WORDS, frequent=1, best=1, least=0.0)
    monkeypatch.setattr(marian_shortlist, "LARGEST", 1000)
    (tmp_path / "lex.s2t").write_bytes(gzip.compress(b"a b 0.5\n" * 5000, mtime=0))
    with pytest.raises(ValueError, match="line 126 "):
        read_table(tmp_path / "lex.s2t", WORDS, WORDS, frequent=1, best=1, least=0.0)
    monkeypatch.undo()
    packed = gzip.compress(b"a b 0.5\n" * 100_000, mtime=0)
    (tmp_path / "lex.s2t").write_bytes(packed)
    with pytest.raises(ValueError, match=f"line {100 * len(packed) // 8 + 1} "):
        read_table(tmp_path / "lex.s2t", WORDS, WORDS, frequent=1, best=1, least=0.0)
