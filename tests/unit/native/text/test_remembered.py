"""A memory that does not grow without end."""

from fairseq_hrt.native.text.remembered import LONGEST, MOST, Remembered


def test_a_key_is_looked_up_once():
    asked = []
    known = Remembered(lambda key: asked.append(key) or key * 2)
    assert [known["a"], known["b"], known["a"], known[7], known[7]] == ["aa", "bb", "aa", 14, 14]
    assert asked == ["a", "b", 7]


def test_long_texts_are_not_kept():
    known = Remembered(len)
    assert (known["x" * LONGEST], known["x" * (LONGEST + 1)]) == (LONGEST, LONGEST + 1)
    assert list(known) == ["x" * LONGEST]


def test_it_holds_so_many_and_no_more():
    known = Remembered(str)
    found = [known[number] for number in range(MOST + 1)]
    assert found == [str(number) for number in range(MOST + 1)]
    assert known == {MOST: str(MOST)}
