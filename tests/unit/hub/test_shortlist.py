"""Lexical tables by IBM Model 1, and shortlists from them, from Marian and from CTranslate2."""

import gzip
import random
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_hrt.hub import lexical_table
from fairseq_hrt.hub.dictionary import Words
from fairseq_hrt.hub.lexical_table import best_targets, train, write_lex
from fairseq_hrt.hub.shortlist import load_shortlist, mean_candidates, read_shortlist, write_shortlist


def model_1(pairs, iterations):
    """Brown et al., word by word; -1 is the empty word."""
    targets = defaultdict(set)
    for source, target in pairs:
        for word in (-1, *source):
            targets[word] |= set(target)
    table = {(one, other): 1 / len(targets[one]) for one in targets for other in targets[one]}
    for _ in range(iterations):
        counts, totals = defaultdict(float), defaultdict(float)
        for source, target in pairs:
            for other in target:
                whole = sum(table[one, other] for one in (-1, *source))
                for one in (-1, *source):
                    counts[one, other] += table[one, other] / whole
                    totals[one] += table[one, other] / whole
        table = {key: counts[key] / totals[key[0]] for key in counts}
    return table


sentences = st.lists(st.integers(0, 5), min_size=1, max_size=5)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(sentences, sentences), min_size=1, max_size=6), st.integers(1, 4), st.booleans())
def test_model_1(pairs, iterations, small_blocks):
    arrays = [[np.array(side) for side in column] for column in zip(*pairs)]
    block = lexical_table.BLOCK
    try:
        lexical_table.BLOCK = 5 if small_blocks else block
        table = train(*arrays, iterations=iterations)
    finally:
        lexical_table.BLOCK = block
    expected = model_1(pairs, iterations)
    found = {(int(one), int(other)): share for one, other, share in zip(*table)}
    assert found == pytest.approx(expected, abs=1e-9)


def test_translations_are_found():
    generator = random.Random(1)
    sources = [generator.choices(range(20), k=generator.randint(2, 8)) for _ in range(400)]
    targets = [generator.sample([word + 100 for word in source], len(source)) for source in sources]
    table = train(list(map(np.array, sources)), list(map(np.array, targets)), iterations=6)
    best = {one: other for one, other, _ in best_targets(table, best=1, least=0.0)}
    assert best == {word: word + 100 for word in range(20)}
    assert all(share >= 0.2 for _, _, share in best_targets(table, best=5, least=0.2))


def test_what_model_1_refuses():
    one = np.array([1])
    for arguments, message in (
        (([one], []), "1 source but 0 target"), (([one], [one[:0]]), "no pair of sentences"), (([], []), "no pair of sentences"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=message):
            train(*arguments)
    with pytest.raises(ValueError, match="0 iterations"):
        train([one], [one], iterations=0)


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


def test_a_lexical_table(words, tmp_path):
    lex = "A a 0.2\nB a 0.5\nNULL a 0.9\nC NULL 0.9\nunknown a 0.9\nC a 0.1\nJ unknown 0.9\nD b 1e-3\n\n"
    (tmp_path / "lex").write_bytes(gzip.compress(lex.encode()))
    found = load_shortlist(tmp_path / "lex", *words, best=2, frequent=3)
    assert candidates(found, 4) == [4, 5] and candidates(found, 5) == [7] and candidates(found, 6) == []
    assert found.always.tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert mean_candidates(found, [[4, 5, 2], [6, 2]]) == 7.5
    write_shortlist(tmp_path / "shortlist.safetensors", found)
    again = read_shortlist(tmp_path / "shortlist.safetensors")
    assert all((one == other).all() and one.dtype == other.dtype for one, other in zip(found, again))


def test_a_vocabulary_map(words, tmp_path):
    (tmp_path / "vmap").write_text("\tI J unknown\na\tA C\nb c\tB\nb\tD\nunknown\tE\n")
    found = load_shortlist(tmp_path / "vmap", *words, frequent=0)
    assert candidates(found, 4) == [4, 6] and candidates(found, 5) == [5, 7]
    assert found.always.tolist() == [0, 1, 2, 3, 12, 13]


def test_a_table_of_our_own(words, tmp_path):
    table = train([np.array([4, 5])] * 3 + [np.array([4])], [np.array([5, 6])] * 3 + [np.array([6])])
    count = write_lex(tmp_path / "lex", table, words[0].words, words[1].words, best=2, least=0.01)
    lines = (tmp_path / "lex").read_text().splitlines()
    assert len(lines) == count and lines[0].split()[:2] == ["C", "a"]
    assert 6 in candidates(load_shortlist(tmp_path / "lex", *words, best=1, frequent=0), 4)


@pytest.mark.parametrize(
    "content, message",
    [
        (b"", "is empty"), (b"A a\n", "not TARGET SOURCE PROBABILITY"), (b"A a x\n", "not TARGET SOURCE PROBABILITY"),
        (b"X y 0.5\n", "none of the dictionaries' words"), (b"x\tY\n", "none of the dictionaries' words"), (b"\xff\xfe\n", "cannot be read"),
        (b"\x1f\x8bnonsense", "cannot be read"),
    ],
)  # fmt: skip
def test_files_that_are_no_shortlists(words, tmp_path, content, message):
    (tmp_path / "lex").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        load_shortlist(tmp_path / "lex", *words)
    with pytest.raises(ValueError, match="cannot be read"):
        load_shortlist(tmp_path / "nowhere", *words)
    with pytest.raises(ValueError, match="give at least 1 and 0"):
        load_shortlist(tmp_path / "lex", *words, best=0)


@pytest.mark.parametrize(
    "change",
    [
        lambda parts: parts.pop("always"), lambda parts: parts.update(more=parts["always"]),
        lambda parts: parts.update(offsets=parts["offsets"][:5]), lambda parts: parts.update(offsets=parts["offsets"][::-1].copy()),
        lambda parts: parts.update(offsets=parts["offsets"].astype(np.int32)), lambda parts: parts.update(offsets=parts["offsets"] + 1),
        lambda parts: parts.update(candidates=parts["candidates"].reshape(1, -1)),
    ],
)  # fmt: skip
def test_damaged_shortlists_are_refused(words, tmp_path, change):
    from safetensors.numpy import save_file

    (tmp_path / "lex").write_text("A a 0.2\nB b 0.5\n")
    parts = load_shortlist(tmp_path / "lex", *words)._asdict()
    change(parts)
    save_file(parts, str(tmp_path / "damaged"))
    with pytest.raises(ValueError, match="is no shortlist"):
        read_shortlist(tmp_path / "damaged")
    (tmp_path / "damaged").write_bytes(b"nothing")
    with pytest.raises(ValueError, match="is no shortlist"):
        read_shortlist(tmp_path / "damaged")
