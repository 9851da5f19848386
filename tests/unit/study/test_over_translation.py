"""OTEM, and a naive count beside it."""

import math
import random

import over_translation
import pytest
from over_translation import otem


def naive(translations, references, order):
    """By the definition, n-gram by n-gram in its place: each occurrence in the translation is
    paired with one in the reference while there are any; where the reference has none, the first
    stands for itself."""
    means = []
    for size in range(1, order + 1):
        over = total = 0
        for words, reference in zip(translations, references):
            places = [words[i : i + size] for i in range(len(words) - size + 1)]
            left = [reference[i : i + size] for i in range(len(reference) - size + 1)]
            unknown = []
            for ngram in places:
                total += 1
                if ngram in left:
                    left.remove(ngram)
                elif (
                    any(ngram == reference[i : i + size] for i in range(len(reference)))
                    or ngram in unknown
                ):
                    over += 1
                else:
                    unknown.append(ngram)
        if not over:
            return 0.0
        means.append(over / total)
    c, r = sum(map(len, translations)), sum(map(len, references))
    mean = math.prod(means) ** (1 / order)
    return mean * math.exp(1 - r / c) if c >= r else mean


@pytest.mark.parametrize("seed", range(30))
def test_it_is_what_a_naive_count_finds(seed):
    draw = random.Random(seed)
    lines = [
        [[draw.choice("abcd") for _ in range(draw.randrange(9))] for _ in range(6)]
        for _ in range(2)
    ]
    order = draw.choice((1, 2, 3))
    assert otem(*lines, order) == pytest.approx(naive(*lines, order), abs=1e-12)


def test_by_hand():
    words, reference = "the the cat sat sat sat".split(), "the cat sat on it".split()
    # Unigrams: the 2 - 1, sat 3 - 1, of 6. Bigrams: of 5 only «sat sat», not in the reference, 2 - 1.
    expected = math.exp(1 - 5 / 6) * math.sqrt(3 / 6 * 1 / 5)
    assert otem([words], [reference]) == pytest.approx(expected)
    # Shorter translations have no penalty.
    longer = [*reference, *"and so on".split()]
    assert otem([words], [longer]) == pytest.approx(math.sqrt(3 / 6 * 1 / 5))


def test_nothing_repeated_and_nothing_written():
    assert otem([["a", "b"]], [["c"]]) == otem([[]], [["a"]]) == otem([], []) == 0
    with pytest.raises(ValueError, match="2 translations of 1 references"):
        otem([["a"], ["b"]], [["a"]])


def test_a_row_for_each_file(tmp_path, capsys):
    files = [tmp_path / name for name in ("reference", "good", "bad")]
    for path, text in zip(files, ("Der Hund bellt.", "Der Hund bellt.", "Der Hund Hund Hund.")):
        path.write_text(text + "\nEin\u2028Wort\n", encoding="utf-8")
    over_translation.main([str(path) for path in files])
    rows = capsys.readouterr().out.splitlines()
    assert rows[0] == "| translations | OTEM-2 |" and rows[2] == f"| {files[1]} | 0.00 |"
    # Of 7 words Hund twice too often, of 5 bigrams Hund Hund once; 7 words instead of 6.
    score = 100 * math.exp(1 - 6 / 7) * math.sqrt(2 / 7 * 1 / 5)
    assert rows[3] == f"| {files[2]} | {score:.2f} |"
    files[2].write_text("one line\n")
    with pytest.raises(SystemExit) as end:
        over_translation.main([str(path) for path in files])
    assert end.value.code == 2
    assert capsys.readouterr().err == "error: 1 translations of 2 references\n"
