"""What a line's translation is made of, when the line was translated in pieces."""

from fairseq_hrt.hub.translation import Translation, join_pieces


def piece(text, score, steps):
    words = [*text.split(), "</s>"]
    return Translation(
        text, f"source of {text}", tokens=words, score=score, positional_scores=[score] * len(words), steps=steps,
        token_steps=list(range(1, len(words) + 1)), alignment=[0] * len(words),
    )  # fmt: skip


def test_a_line_without_words():
    found = join_pieces(" \t", [])
    assert found == Translation("", " \t") and found.score is None and found.tokens == []


def test_a_line_in_one_piece_keeps_its_other_hypotheses():
    first, second, third = (piece(text, score, 3) for text, score in (("a", -1.0), ("b", -2.0), ("c", -3.0)))
    found = join_pieces("x", [[first, second, third]])
    assert found is first and found.alternatives == [second, third]
    assert join_pieces("x", [[second]]).alternatives == []


def test_the_best_of_each_piece_in_a_row():
    pieces = [[piece("a b", -1.0, 3), piece("z", -9.0, 9)], [piece("", -4.0, 1)], [piece("c", -1.0, 2)]]
    found = join_pieces("the line", pieces)
    # No second space where a piece says nothing.
    assert (found.text, found.source, found.score, found.steps) == ("a b c", "the line", -2.0, 6)
    assert found.tokens == ["a", "b", "</s>", "</s>", "c", "</s>"] and found.token_steps == [1, 2, 3, 1, 1, 2]
    assert found.positional_scores == [-1.0] * 3 + [-4.0] + [-1.0] * 2 and found.alignment == [0] * 6
    assert found.alternatives == []


def test_a_piece_without_a_score_leaves_the_line_without():
    pieces = [[piece("a", -1.0, 1)], [Translation("b", "b")]]
    assert join_pieces("a b", pieces).score is None
