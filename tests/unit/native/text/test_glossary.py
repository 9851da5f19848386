"""Terms of a glossary: read from files, found in text."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_hrt.native.text.glossary import LONGEST, MOST_UNITS, Glossary


def found(terms, text):
    return [(text[one.start : one.end], one.translation) for one in Glossary(terms).find(text)]


TEXTS = st.text(alphabet="abA é-中文", max_size=30)
TERMS = st.dictionaries(
    st.text(alphabet="abA é-中文", min_size=1, max_size=6)
    .map(lambda term: " ".join(term.split()))
    .filter(bool),
    st.sampled_from("xyz"),
    min_size=1,
    max_size=8,
)
_LETTERS = "[abAéÉ]"


def naively(terms, text):
    """The same by one regular expression a term, and each pair of matches compared."""
    matches = []
    for term, translation in terms.items():
        pattern = r"\s+".join(map(re.escape, term.split()))
        if re.match(_LETTERS, term[0]):
            pattern = f"(?<!{_LETTERS})(?<!{_LETTERS}-){pattern}"
        if re.match(_LETTERS, term[-1]):
            pattern += f"(?!{_LETTERS})(?!-{_LETTERS})"
        small = term == term.lower()
        compiled = re.compile(pattern, re.IGNORECASE if small else 0)
        for start in range(len(text)):
            match = compiled.match(text, start)
            if match:
                # A term with capitals comes before one without.
                matches.append((start - match.end(), start, small, match.end(), translation))
    taken, chosen = set(), []
    for _, start, _, end, translation in sorted(matches):
        if taken.isdisjoint(range(start, end)):
            taken.update(range(start, end))
            chosen.append((start, end, translation))
    return sorted(chosen)


@given(TERMS, TEXTS)
def test_terms_are_found_as_by_comparing_all(terms, text):
    # Beside signs the rule for joined words is written out in a test of its own.
    terms = {term: given for term, given in terms.items() if term.strip("-") == term}
    if terms:
        assert [tuple(one) for one in Glossary(terms).find(text)] == naively(terms, text)


@given(TERMS, TEXTS, st.randoms(use_true_random=False))
def test_the_order_of_lines_means_nothing(terms, text, random):
    lines = [f"{term}\t{translation}" for term, translation in terms.items()]
    random.shuffle(lines)
    one, other = Glossary(terms), Glossary.parse("\n".join([*lines, "", *lines]))
    assert one.find(text) == other.find(text) and one.identity() == other.identity()
    assert one == other and hash(one) == hash(other) and one != terms


@settings(max_examples=40)
@given(st.text(), st.lists(st.text(min_size=1), min_size=1, max_size=4))
def test_any_text_and_any_terms(text, words):
    terms = {}
    for word in words:
        try:
            Glossary({word: "x"})
        except ValueError:
            continue
        terms[word.strip()] = "x"
    if terms:
        last = 0
        for start, end, _ in Glossary(terms).find(f"{text} {words[0]} {text}"):
            assert last <= start < end
            last = end


def test_words_case_and_scripts():
    terms = {
        "dog": "Hund", "Dog": "Dogge", "ice cream": "Eis", "cream": "Sahne", "NASA": "Nasa",
        "café": "Kaffeehaus", "C++": "C++", "l'or": "Gold", "हिन्दी": "Hindi", "学习": "Lernen",
        "机器学习": "Maschinenlernen", "οδός": "Straße",
    }  # fmt: skip
    cases = [
        ("dogs, a DOG's dog-house, hot-dog, dog_1, dog", ["DOG", "dog"]),
        ("A Dog and a dog", ["Dog", "dog"]),
        ("ice\u00a0 cream, Ice-cream cream", ["ice\u00a0 cream", "cream"]),
        ("nasa, NASA.", ["NASA"]),
        ("CAFE\u0301, cafe, caf\u00e9s", ["CAFE\u0301"]),
        ("c++ C++", ["C++"]),
        ("L'or, l\u2019or, d'or", ["L'or", "l\u2019or"]),
        ("हिन्दी, हिन्दीम", ["हिन्दी"]),
        ("ΟΔΌΣ, οδός, οδόν", ["ΟΔΌΣ", "οδός"]),
        ("我喜欢机器学习和学习。", ["机器学习", "学习"]),
        ("dog@dog.org, http://a.org/dog, {dog}, <dog>dog</dog>", ["dog"]),
    ]
    for text, expected in cases:
        assert [name for name, _ in found(terms, text)] == expected, text
    assert found({"dog": "Hund", "Dog": "Dogge"}, "Dog DOG") == [("Dog", "Dogge"), ("DOG", "Hund")]


def test_files(tmp_path):
    file = tmp_path / "terms.tsv"
    file.write_bytes("\ufeffdog\tHund\r\n\r\n ice  cream \t Eis \r\ndog\tHund\n".encode())
    assert Glossary.read(file).terms == {"dog": "Hund", "ice cream": "Eis"}
    assert Glossary.of(str(file)).find("dog") == Glossary.of({"dog": "Hund"}).find("dog")
    refused = [
        (b"dog\tHund\ndog Hund\n", "line 2: 'dog Hund' is not a term, a tab and its translation"),
        (b"dog\tHund\tKatze", "line 1: 'dog\\\\tHund\\\\tKatze' is not a term, a tab"),
        (b"dog\tHund\n\ndog\tK\xc3\xb6ter", "line 3: 'dog' has the translation 'Hund' in line 1"),
        (b"caf\xc3\xa9\ta\ncafe\xcc\x81\tb", "line 2: 'café' has the translation 'a' in line 1"),
        (b"\tHund", "line 1: a term is empty"),
        (b"dog\t \n", "line 1: a translation is empty"),
        (b"dog\tHu\x1bnd", "holds control characters"),
        (b"dog\tHu\xe2\x80\xa8nd\n" + b"x" * 300 + b"\ty", "line 2: .* has 300 characters; 200"),
        (b"+ " * 50 + b"\ty", f"has 50 words and signs; {MOST_UNITS} are allowed"),
        (b"", "without terms"),
        (b"dog\tH\xfcnd", "is not UTF-8"),
    ]
    for content, message in refused:
        file.write_bytes(content)
        with pytest.raises(ValueError, match=f"glossary .*terms.tsv.*{message}"):
            Glossary.read(file)
    with pytest.raises(ValueError, match="cannot be read: No such file"):
        Glossary.read(tmp_path / "none")
    with pytest.raises(ValueError, match="translation 3 is not a string"):
        Glossary({"dog": 3})
    for value in (5, ["dog"]):
        with pytest.raises(ValueError, match="give terms with their translations, the path"):
            Glossary.of(value)
    # Found alike, however they are written.
    for one, other in (("don't", "don\u2019t"), ("e-mail", "e\u2010mail")):
        assert len(Glossary({one: "a", other: "a"}).find(f"{one} {other}")) == 2
        with pytest.raises(ValueError, match="two translations, 'a' and 'b', in two spellings"):
            Glossary({one: "a", other: "b"})


def test_one_glossary_over_another():
    below = Glossary({"dog": "Hund", "cat": "Katze", "hot dog": "Würstchen"})
    both = Glossary({"dog": "Köter", "the cat": "die Katze"}).over(below)
    assert [one.translation for one in both.find("dog, cat, hot dog, the cat")] == [
        "Köter", "Katze", "Würstchen", "die Katze",
    ]  # fmt: skip
    assert both.terms["dog"] == "Köter" and len(both.terms) == 4
    # Two spellings of one term: the first glossary's counts.
    one, other = Glossary({"it's": "a"}), Glossary({"it’s": "b"})
    assert one.over(other) != other.over(one) and one.over(other) == one.over(other)
    assert both.identity() != below.identity() and both != below


def test_hostile_terms_and_texts_take_linear_time():
    # A quadratic search would need minutes.
    longest = {("+" * count): "x" * LONGEST for count in range(1, MOST_UNITS + 1)}
    marks = "a" + "\u0315\u0300" * 10000
    assert len(Glossary(longest).find("+" * 4000)) == 100
    assert Glossary({"a\u0301": "b"}).find(marks) == []
    assert Glossary({"a a": "b"}).find("a" + " " * 50000 + "a")
