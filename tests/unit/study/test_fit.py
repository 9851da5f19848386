"""examples/study/fit.py: how probable models find what they learnt, and what they did not."""

import fit
import pytest

NEVER = float("-inf")


def test_the_figure_is_per_subword_of_all_pairs():
    (result,) = fit.compare(["a"], [[(-1.0, 2), (-8.0, 4)]], [[(-6.0, 3)]])
    assert (result.learnt, result.unseen) == (pytest.approx(9 / 6), pytest.approx(2))
    assert (result.pairs, result.without) == ((2, 1), (0, 0))


def test_a_pair_that_one_model_cannot_write_counts_for_none():
    learnt = [[(-1.0, 2), (-8.0, 4)], [(-3.0, 2), (NEVER, 4)]]
    one, two = fit.compare(["a", "b"], learnt, [[(-3.0, 3)], [(-6.0, 3)]])
    assert (one.learnt, two.learnt) == (pytest.approx(0.5), pytest.approx(1.5))
    assert one.pairs == two.pairs == (1, 1) and one.without == two.without == (1, 0)


def test_other_pairs_are_refused():
    with pytest.raises(ValueError, match="a, b did not score the same subwords"):
        fit.compare(["a", "b"], [[(-1.0, 2)], [(-1.0, 3)]], [[(-1.0, 2)]] * 2)
    with pytest.raises(ValueError, match="too short for every pair"):
        fit.compare(["a"], [[(NEVER, 2)]], [[(-1.0, 2)]])


def test_table_and_picture(tmp_path):
    results = fit.compare(["AT", "a|b"], [[(-1.0, 2)], [(-2.0, 2)]], [[(-2.0, 2)], [(-4.0, 2)]])
    table = fit.markdown(results)
    assert "| AT | 0.500 | 1.000 | 0.500 |" in table and "b | 1.000 | 2.000 | 1.000 |" in table
    assert "1 learnt pairs and 1 others, 0 left out" in table
    fit.draw(results).savefig(tmp_path / "fit.png")
    assert (tmp_path / "fit.png").stat().st_size > 5000
