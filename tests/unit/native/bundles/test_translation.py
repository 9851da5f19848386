"""What a line's translation is made of, when the line was translated in pieces."""

from itertools import product
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_hrt.native.bundles.translation import PreparedLine, Translation, join_pieces, raw_text


def piece(text, score, steps):
    words = [*text.split(), "</s>"]
    return Translation(
        text, f"source of {text}", tokens=words, score=score,
        positional_scores=[score] * len(words), steps=steps,
        token_steps=list(range(1, len(words) + 1)), alignment=[0] * len(words),
    )  # fmt: skip


def test_a_line_without_words():
    found = join_pieces(" \t", [])
    assert found == Translation("", " \t") and found.score is None and found.tokens == []


def test_a_line_in_one_piece_keeps_its_other_hypotheses():
    first, second = piece("a", -1.0, 3), piece("b", -2.0, 3)
    first.alternatives = [second]
    found = join_pieces("x", [first])
    assert found is first and found.alternatives == [second]


def test_the_best_of_each_piece_in_a_row():
    parts = [piece("a b", -1.0, 3), piece("", -4.0, 1), piece("c", -1.0, 2)]
    parts[0].alternatives = [piece("z", -9.0, 9)]
    found = join_pieces("the line", parts)
    # No second space where a piece is empty.
    assert (found.text, found.source, found.score, found.steps) == ("a b c", "the line", -2.0, 6)
    assert found.tokens == ["a", "b", "</s>", "</s>", "c", "</s>"] and found.token_steps == [
        1,
        2,
        3,
        1,
        1,
        2,
    ]
    assert (
        found.positional_scores == [-1.0] * 3 + [-4.0] + [-1.0] * 2 and found.alignment == [0] * 6
    )
    others = [(one.text, one.score, one.steps) for one in found.alternatives]
    assert others == [("z c", -14.0 / 3, 12)]


def test_alternatives_of_a_line_are_the_best_combinations():
    """Ordered by their scores, which are means of those of the pieces; as many as a piece has."""
    parts = [piece("a", -1.0, 1), piece("d", -2.0, 1)]
    parts[0].alternatives = [piece("b", -2.0, 1), piece("c", -9.0, 1)]
    parts[1].alternatives = [piece("e", -2.5, 1)]
    found = join_pieces("x y", parts)
    assert [(one.text, one.score) for one in found.alternatives] == [("a e", -1.75), ("b d", -2.0)]
    # A rescoring model may have a favourite with a lower score.
    parts[0].score = -10.0
    found = join_pieces("x y", parts)
    assert [found.text, *(one.text for one in found.alternatives)] == ["a d", "b d", "b e"]
    assert [one.source for one in found.alternatives] == ["x y"] * 2


@given(st.lists(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(-9, 0)), min_size=1, max_size=4),
    min_size=2, max_size=4,
))  # fmt: skip
def test_alternatives_equal_those_of_all_combinations(drawn):
    """A text that a piece has several times counts once, where it is first."""
    parts, choices = [], []
    for found in drawn:
        best, *others = (piece(text, float(score), 1) for text, score in found)
        best.alternatives = others
        parts.append(best)
        choices.append({one.text: one.score for one in (*reversed(others), best)})
    wanted = sorted(
        (sum(own[text] for own, text in zip(choices, texts)) for texts in product(*choices)),
        reverse=True,
    )
    joined = join_pieces("x", parts)
    most = max(len(part.alternatives) for part in parts)
    assert len({one.text for one in joined.alternatives} | {joined.text}) == 1 + len(
        joined.alternatives
    )
    totals = [len(parts) * one.score for one in joined.alternatives]
    # The best translations may have another score than the largest.
    wanted.remove(sum(part.score for part in parts))
    assert totals == pytest.approx(wanted[:most])


def test_a_piece_without_a_score_leaves_the_line_without():
    parts = [piece("a", -1.0, 1), Translation("b", "b")]
    assert join_pieces("a b", parts).score is None


@given(st.lists(st.sampled_from("abc")), st.integers(1, 5), st.integers(1, 5))
def test_pieces_are_the_line_again(words, longest, shorter):
    line, pipeline = " ".join(words), SimpleNamespace(words=str.split, prefix_length=0)
    pieces = PreparedLine.pieces(line, pipeline, longest)
    assert [word for piece in pieces for word in piece.words] == words
    assert [len(piece) for piece in pieces[:-1]] == [longest] * (len(pieces) - 1) and len(
        pieces[-1]
    ) <= longest
    # Also of pieces of pieces; they need no preparation.
    for part in [
        part for piece in pieces for part in PreparedLine.pieces(piece, pipeline, shorter)
    ]:
        assert raw_text(part) == raw_text(line) == line and len(part) <= min(longest, shorter)
        assert list(part.words) == words[part.start : part.start + len(part)]
    assert len(pieces) == max(1, -(-len(words) // longest))


@given(st.lists(st.sampled_from("abc"), min_size=1), st.integers(2, 5))
def test_every_piece_begins_with_the_language_token(words, longest):
    line, pipeline = (
        " ".join(words),
        SimpleNamespace(words=lambda text: ["de_DE", *text.split()], prefix_length=1),
    )
    pieces = PreparedLine.pieces(line, pipeline, longest)
    assert all(piece.words[0] == "de_DE" and 1 < len(piece) <= longest for piece in pieces)
    assert [word for piece in pieces for word in piece.words[1:]] == words
    for piece in pieces:
        assert list(piece.words[1:]) == words[piece.start : piece.start + len(piece) - 1]
