"""Subword units as subword-nmt applies them."""

import io
import random
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import learn_bpe

from fairseq_hrt.native.text.remembered import LONGEST
from fairseq_hrt.native.text.subword_units import SubwordUnits

WORDS = [
    "lower",
    "lowest",
    "newest",
    "wider",
    "wide",
    "aaaa",
    "aaabaaa",
    "größte",
    "größer",
    "ананас",
    "</w>",
    "low</w>er",
    "e@@",
    "x",
]


@pytest.fixture(scope="module", params=["0.2", "0.1"])
def both(request, tmp_path_factory):
    generator = random.Random(1)
    text = [" ".join(generator.choices(WORDS, k=6)) + "\n" for _ in range(200)]
    learnt = io.StringIO()
    learn_bpe(text, learnt, 60, min_frequency=2, is_dict=False)
    path = tmp_path_factory.mktemp("codes") / "codes"
    path.write_text(
        learnt.getvalue().replace("#version: 0.2", f"#version: {request.param}"), encoding="utf-8"
    )
    with open(path, encoding="utf-8") as codes:
        return BPE(codes), SubwordUnits(path)


@settings(max_examples=120, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.sampled_from(WORDS),
            st.text(st.sampled_from("lowerstwidnaabgöß@</w>"), min_size=1, max_size=12),
        ),
        max_size=6,
    )
)
def test_units_are_those_of_subword_nmt(both, words):
    reference, units = both
    text = " ".join(words)
    assert units.split(text) == reference.process_line(text).split()
    assert units.split(text) == reference.process_line(text).split(), (
        "also those that were remembered"
    )


@st.composite
def codes_and_word(draw):
    """Merges that no training finds, among them pairs which later ones make again, and a word that
    they fit."""
    letters = draw(st.sampled_from(["a", "ab", "abc"]))
    parts, merges = [*letters, "</w>", *(letter + "</w>" for letter in letters)], []
    for _ in range(draw(st.integers(1, 24))):
        left = draw(st.sampled_from([part for part in parts if not part.endswith("</w>")]))
        merges.append((left, draw(st.sampled_from(parts))))
        parts.append("".join(merges[-1]))
    version = draw(st.sampled_from(["0.1", "0.2"]))
    lines = "\n".join(f"{left} {right}" for left, right in draw(st.permutations(merges)))
    word = draw(
        st.one_of(
            st.text(st.sampled_from(letters), min_size=1, max_size=200),
            st.integers(1, 300).map("a".__mul__),
        )
    )
    return f"#version: {version}\n{lines}\n", word


@settings(max_examples=100, deadline=None)
@given(codes_and_word())
def test_long_words_have_the_units_of_subword_nmt(tmp_path_factory, codes_and_word):
    codes, word = codes_and_word
    path = tmp_path_factory.getbasetemp() / "drawn_codes"
    path.write_text(codes, encoding="utf-8")
    assert SubwordUnits(path).split(word) == BPE(io.StringIO(codes)).process_line(word).split()


class Counted(dict):
    """A dictionary that counts how often it was asked."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.asked = 0

    def get(self, *arguments):
        self.asked += 1
        return super().get(*arguments)


@pytest.mark.parametrize("letters", ["a", "lowerst", "wide"])
def test_work_grows_like_the_length_of_a_word(both, letters):
    """Looking through the whole word for each merge, 20,000 characters took 15 seconds."""
    _, units = both
    word = "".join(random.Random(letters).choices(letters, k=20_000))
    ranks, units.ranks = units.ranks, Counted(units.ranks)
    try:
        assert "".join(units.split(word)).replace("@@", "") == word
        # Each pair once, and each merge, of which there are fewer than characters, has two
        # neighbours.
        assert len(word) <= units.ranks.asked <= 3 * len(word)
    finally:
        units.ranks = ranks


def test_what_is_remembered_is_small(both):
    """The number of words is bounded, and so has to be the size of each."""
    _, units = both
    word = "\U0001f600" * LONGEST
    assert units.split(f"{word} {word}-") == [
        *["\U0001f600@@"] * (LONGEST - 1),
        "\U0001f600",
        *["\U0001f600@@"] * LONGEST,
        "-",
    ]
    assert word in units.units and word + "-" not in units.units
    assert (
        max(sys.getsizeof(word) + sys.getsizeof(found) for word, found in units.units.items()) < 900
    )


def test_a_pair_that_stands_there_twice_counts_once(tmp_path):
    path = tmp_path / "codes"
    path.write_text("#version: 0.2\nb c</w>\na b\na b\nb c</w>\nab c</w>\n", encoding="utf-8")
    with open(path, encoding="utf-8") as codes:
        reference = BPE(codes)
    for word in ("abc", "bc", "ab", "abcabc"):
        assert SubwordUnits(path).split(word) == reference.process_line(word).split()


@pytest.mark.parametrize(
    "version, expected",
    [
        ("0.2", (0, 2)),
        ("0.1", (0, 1)),
        ("0.2.0", (0, 2)),
        ("0.1.0.00", (0, 1)),
        ("0.2.000", (0, 2)),
    ],
)
def test_versions(tmp_path, version, expected):
    (tmp_path / "codes").write_text(f"#version: {version}\na b\n", encoding="utf-8")
    assert SubwordUnits(tmp_path / "codes").version == expected


def test_codes_without_a_version(tmp_path):
    path = tmp_path / "codes"
    path.write_text("a b\nc </w>\n", encoding="utf-8")
    with open(path, encoding="utf-8") as codes:
        assert SubwordUnits(path).split("abc cab") == BPE(codes).process_line("abc cab").split()


@pytest.mark.parametrize(
    "content, message",
    [
        (b"", "merge 1 is ''"), (b"#version: 0.2\n", "merge 1 is ''"),
        (b"#version: 0.2\na b\nc\n", "merge 2 is 'c'"), (b"#version: 3\na b\n", "version '3'"),
        (b"#version:\na b\n", "version '#version:'"), (b"\xff\xfe\n", "cannot be read"),
        # Of a long one a part is shown, at once.
        (b"#version: " + b".0" * 200_000 + b"x\na b\n", r"version '(\.0){20}';"),
        (b"#version: 0.1x\na b\n", "version '0.1x'"), (b"#version: 0.21\na b\n", "version"),
    ],
)  # fmt: skip
def test_what_is_no_file_of_codes(tmp_path, content, message):
    (tmp_path / "codes").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        SubwordUnits(tmp_path / "codes")
    with pytest.raises(ValueError, match="cannot be read"):
        SubwordUnits(tmp_path / "nowhere")


def test_codes_of_fastbpe(tmp_path):
    """Its files have a frequency behind each merge and no version; its units are those of
    subword-nmt 0.2."""
    merges = ["l o", "lo w", "e r</w>", "low er</w>", "n e", "ne w</w>"]
    (tmp_path / "subword-nmt").write_text("#version: 0.2\n" + "".join(f"{one}\n" for one in merges))
    (tmp_path / "fastbpe").write_text(
        "".join(f"{one} {90 - rank}\n" for rank, one in enumerate(merges))
    )
    expected, found = (SubwordUnits(tmp_path / name) for name in ("subword-nmt", "fastbpe"))
    text = "lower low new newer x lol"
    assert (
        found.split(text)
        == expected.split(text)
        == BPE(io.StringIO((tmp_path / "subword-nmt").read_text())).segment(text).split()
    )
    (tmp_path / "mixed").write_text("l o 9\nlo w\n")
    with pytest.raises(ValueError, match="merge 1 is 'l o 9'"):
        SubwordUnits(tmp_path / "mixed")
