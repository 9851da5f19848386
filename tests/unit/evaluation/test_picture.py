"""Where points and labels stand."""

import pytest

from fairseq_hrt.evaluation.picture import apart, frontier, overlap


def test_overlap_is_the_common_area():
    assert overlap((0, 0, 4, 4), (2, 3, 9, 9)) == 2
    assert overlap((0, 0, 4, 4), (4, 0, 5, 5)) == 0


def test_frontier():
    assert frontier([(1, 5), (2, 5), (3, 1), (2, 4), (4, 0), (3, 0)]) == [(4, 0), (3, 1), (2, 5)]
    assert frontier([(1, 1)]) == [(1, 1)]


@pytest.mark.parametrize(
    "wanted", [[0.5], [0.1, 0.9], [0.5] * 5, [0.98, 0.99, 1.0], [0.0, 0.01, 0.02], [0.4] * 60]
)
def test_labels_stand_apart_and_inside(wanted):
    places = apart(wanted, 0.1)
    gap = min(0.1, 1 / max(len(wanted) - 1, 1))
    assert all(-1e-9 <= place <= 1 + 1e-9 for place in places)
    assert all(upper - lower >= gap - 1e-9 for lower, upper in zip(places, places[1:]))
    if len(wanted) < 3:
        assert places == wanted
