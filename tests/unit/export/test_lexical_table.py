"""IBM Model 1 against its definition, word by word."""

import random
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_hrt.export import lexical_table
from fairseq_hrt.export.lexical_table import Sentences, best_targets, train, write_lex


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
@given(
    st.lists(st.tuples(sentences, sentences), min_size=1, max_size=6),
    st.integers(1, 4),
    st.booleans(),
)
def test_model_1(pairs, iterations, small_blocks):
    arrays = [[np.array(side) for side in column] for column in zip(*pairs)]
    block = lexical_table.BLOCK
    try:
        lexical_table.BLOCK = 5 if small_blocks else block
        table = train(
            *(column if small_blocks else Sentences(column) for column in arrays),
            iterations=iterations,
        )
    finally:
        lexical_table.BLOCK = block
    expected = model_1(pairs, iterations)
    found = {(int(one), int(other)): share for one, other, share in zip(*table)}
    assert found == pytest.approx(expected, abs=1e-9)


def test_sentences_in_one_piece():
    rows = [np.array(row, np.int64) for row in ([3, 1], [], [2])]
    found = Sentences(iter(rows))
    assert len(found) == 3 and [row.tolist() for row in found] == [[3, 1], [], [2]]
    assert len(Sentences([])) == 0 and list(Sentences([])) == []


def test_translations_are_found():
    generator = random.Random(1)
    sources = [generator.choices(range(20), k=generator.randint(2, 8)) for _ in range(400)]
    targets = [generator.sample([word + 100 for word in source], len(source)) for source in sources]
    table = train(list(map(np.array, sources)), list(map(np.array, targets)), iterations=6)
    best = {one: other for one, other, _ in best_targets(table, best=1, least=0.0)}
    assert best == {word: word + 100 for word in range(20)}
    assert all(share >= 0.2 for _, _, share in best_targets(table, best=5, least=0.2))


def test_the_best_targets_of_each_source():
    sources, targets, shares = (
        [-1, 0, 0, 0, 0, 1, 2, 2],
        [9, 5, 6, 7, 8, 5, 5, 6],
        [1.0, 0.1, 0.3, 0.4, 0.2, 1.0, 0.5, 0.5],
    )
    table = lexical_table.LexicalTable(np.array(sources), np.array(targets), np.array(shares))
    assert list(best_targets(table, best=2, least=0.0)) == [
        (0, 7, 0.4),
        (0, 6, 0.3),
        (1, 5, 1.0),
        (2, 5, 0.5),
        (2, 6, 0.5),
    ]
    assert list(best_targets(table, best=4, least=0.4)) == [
        (0, 7, 0.4),
        (1, 5, 1.0),
        (2, 5, 0.5),
        (2, 6, 0.5),
    ]
    assert list(best_targets(table, best=1, least=0.0)) == [(0, 7, 0.4), (1, 5, 1.0), (2, 5, 0.5)]


def test_what_model_1_refuses():
    one = np.array([1])
    for arguments, message in (
        (([one], []), "1 source but 0 target"), (([one], [one[:0]]), "no pair of sentences"),
        (([], []), "no pair of sentences"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=message):
            train(*arguments)
    with pytest.raises(ValueError, match="0 iterations"):
        train([one], [one], iterations=0)


def test_marians_format(tmp_path):
    table = lexical_table.LexicalTable(
        np.array([-1, 0, 0, 1]), np.array([1, 0, 1, 1]), np.array([1.0, 0.25, 0.75, 1.0])
    )
    path = tmp_path / "lex"
    assert write_lex(path, table, ["a", "ß"], ["A", "B"], best=2, least=0.0) == 3
    assert path.read_text(encoding="utf-8") == "B a 0.750000\nA a 0.250000\nB ß 1.000000\n"
    assert [one.name for one in tmp_path.iterdir()] == ["lex"]
