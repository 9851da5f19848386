"""Marian's binary shortlists."""

import struct

import pytest
from imported_models import write_shortlist

from fairseq_hrt.conversion.marian_shortlist import is_binary, read_binary
from fairseq_hrt.conversion.vocabularies import make_vocabulary, specials_in

ROWS = ["</s>", "<unk>", "a", "b", "c", "d"]
WORDS = make_vocabulary(ROWS, specials_in(ROWS), "v")


def test_candidates_by_their_words(tmp_path):
    path = write_shortlist(tmp_path / "lex.bin", [[0], [], [4, 5], [2, 3], [], [1]], frequent=3)
    assert is_binary(path)
    # Special symbols are candidates anyway, and no words of a text.
    assert read_binary(path, WORDS, WORDS) == ["\ta", "a\tc d", "b\ta b", "d\t"]
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
