"""Lexical tables by IBM Model 1, and shortlists from them, from Marian and from CTranslate2."""

import gzip
import json
import os
import stat
import struct

import numpy as np
import pytest

from fairseq_hrt.export.lexical_table import train, write_lex
from fairseq_hrt.native.bundles import shortlist
from fairseq_hrt.native.bundles.shortlist import (
    load_shortlist,
    mean_candidates,
    read_shortlist,
)
from fairseq_hrt.native.text.dictionary import Words


@pytest.fixture
def words(tmp_path):
    """Dictionaries of the words a, b, …, j (ids 4 to 13) and A, B, …, J."""
    found = []
    for name, letters in (("de", "abcdefghij"), ("en", "ABCDEFGHIJ")):
        (tmp_path / f"dict.{name}.txt").write_text("".join(f"{letter} 9\n" for letter in letters))
        found.append(Words(tmp_path / f"dict.{name}.txt"))
    return found


def candidates(shortlist, word):
    return shortlist.candidates[shortlist.offsets[word] : shortlist.offsets[word + 1]].tolist()


def test_a_lexical_table(words, tmp_path, monkeypatch):
    monkeypatch.setattr(shortlist, "BEST", 2)
    monkeypatch.setattr(shortlist, "FREQUENT", 3)
    lex = (
        "A a 0.2\nB a 0.5\nNULL a 0.9\nC NULL 0.9\nunknown a 0.9\nC a 0.1\nJ unknown 0.9\nD b"
        " 1e-3\n\n"
    )
    (tmp_path / "lex").write_bytes(gzip.compress(lex.encode()))
    found = load_shortlist(tmp_path / "lex", *words)
    assert (
        candidates(found, 4) == [4, 5]
        and candidates(found, 5) == [7]
        and candidates(found, 6) == []
    )
    assert (
        found.always.tolist() == [0, 1, 2, 3, 4, 5, 6] and len(found.offsets) == len(words[0]) + 1
    )
    assert mean_candidates(found, [[4, 5, 2], [6, 2]]) == 7.5


def test_a_vocabulary_map(words, tmp_path, monkeypatch):
    monkeypatch.setattr(shortlist, "FREQUENT", 0)
    (tmp_path / "vmap").write_text("\tI J unknown\na\tA C\nb c\tB\nb\tD\nunknown\tE\n")
    found = load_shortlist(tmp_path / "vmap", *words)
    assert candidates(found, 4) == [4, 6] and candidates(found, 5) == [5, 7]
    assert found.always.tolist() == [0, 1, 2, 3, 12, 13]


def test_a_table_of_our_own(words, tmp_path):
    table = train(
        [np.array([4, 5])] * 3 + [np.array([4])], [np.array([5, 6])] * 3 + [np.array([6])]
    )
    count = write_lex(tmp_path / "lex", table, words[0].words, words[1].words, best=2, least=0.01)
    lines = (tmp_path / "lex").read_text().splitlines()
    assert len(lines) == count and lines[0].split()[:2] == ["C", "a"]
    assert 6 in candidates(load_shortlist(tmp_path / "lex", *words), 4)


@pytest.mark.parametrize(
    "content, message",
    [
        (b"", "is empty"), (b"A a\n", "not TARGET SOURCE PROBABILITY"),
        (b"A a x\n", "not TARGET SOURCE PROBABILITY"),
        (b"X y 0.5\n", "none of the dictionaries' words"),
        (b"x\tY\n", "none of the dictionaries' words"), (b"\xff\xfe\n", "not UTF-8 text"),
        # The mark of Marian's binary ones.
        (0xF11A48D5013417F5.to_bytes(8, "little"), "A binary shortlist of Marian can only be read"),
        (b"\x1f\x8bnonsense", "damaged gzip data"),
    ],
)  # fmt: skip
def test_files_that_are_no_shortlists(words, tmp_path, content, message):
    (tmp_path / "lex").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        load_shortlist(tmp_path / "lex", *words)
    with pytest.raises(ValueError, match="cannot be read"):
        load_shortlist(tmp_path / "nowhere", *words)


@pytest.mark.parametrize(
    "change",
    [
        lambda parts: parts.pop("always"), lambda parts: parts.update(more=parts["always"]),
        lambda parts: parts.update(offsets=parts["offsets"][:5]),
        lambda parts: parts.update(offsets=parts["offsets"][::-1].copy()),
        lambda parts: parts.update(offsets=parts["offsets"].astype(np.int32)),
        lambda parts: parts.update(offsets=parts["offsets"] + 1),
        lambda parts: parts.update(candidates=parts["candidates"].reshape(1, -1)),
    ],
)  # fmt: skip
def test_damaged_shortlists_are_refused(words, tmp_path, change):
    from safetensors.numpy import save_file

    (tmp_path / "lex").write_text("A a 0.2\nB b 0.5\n")
    parts = load_shortlist(tmp_path / "lex", *words)._asdict()
    change(parts)
    save_file(parts, str(tmp_path / "damaged"))
    with pytest.raises(ValueError, match="is not a shortlist"):
        read_shortlist(tmp_path / "damaged")
    for content in (b"nothing", tensor_file("F8_E4M3"), tensor_file("F4"), tensor_file("BF16")):
        (tmp_path / "damaged").write_bytes(content)
        with pytest.raises(ValueError, match="is not a shortlist"):
            read_shortlist(tmp_path / "damaged")


@pytest.mark.parametrize(
    "spoil", [lambda data: data[: len(data) // 2], lambda data: data[:15] + b"\xff\xff" + data[17:]]
)
def test_damaged_gzip_is_named(words, tmp_path, spoil):
    data = gzip.compress(b"".join(b"A a 0.%d\n" % number for number in range(1000)))
    (tmp_path / "lex.gz").write_bytes(spoil(data))
    with pytest.raises(ValueError, match="lex.gz: damaged gzip data"):
        load_shortlist(tmp_path / "lex.gz", *words)
    (tmp_path / "lex.gz").write_bytes(data)
    assert candidates(load_shortlist(tmp_path / "lex.gz", *words), 4) == [4]


@pytest.mark.parametrize("content", [b"\0" * 10**6, b"A a 0.5\n" * 10**5])
def test_a_small_file_does_not_fill_the_memory(words, tmp_path, monkeypatch, content):
    (tmp_path / "lex.gz").write_bytes(gzip.compress(content))
    monkeypatch.setattr(shortlist, "LARGEST", len(content) - 1)
    monkeypatch.setattr(shortlist, "LONGEST_LINE", 1000)
    with pytest.raises(ValueError, match="lex.gz is not a shortlist: a line has more than"):
        load_shortlist(tmp_path / "lex.gz", *words)


def test_a_table_goes_through_pipes_and_leaves_other_files(tmp_path):
    table = train([np.array([0])], [np.array([0])])
    (tmp_path / "lex.partial").write_text("somebody's")
    write_lex(tmp_path / "lex", table, ["a"], ["A"], best=1, least=0.0)
    assert (tmp_path / "lex").read_text() == "A a 1.000000\n" and (
        tmp_path / "lex.partial"
    ).read_text() == "somebody's"
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write_lex(tmp_path / "pipe", table, ["a"], ["A"], best=1, least=0.0)
    assert os.read(reader, 99) == b"A a 1.000000\n" and stat.S_ISFIFO(
        (tmp_path / "pipe").stat().st_mode
    )
    os.close(reader)


def tensor_file(kind):
    """A safetensors file whose tensors have a type of their own."""
    header = json.dumps(
        {name: {"dtype": kind, "shape": [4], "data_offsets": [0, 4]} for name in ("offsets",)}
    ).encode()
    return struct.pack("<Q", len(header)) + header + bytes(4)
