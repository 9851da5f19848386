"""Batches that are divided where their graphs are too large together."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fairseq_hrt.dag.batches import divided


@given(st.lists(st.integers(1, 20), max_size=30), st.integers(20, 100), st.integers(1, 8))
def test_pieces_are_as_large_as_they_may_be(vertices, limit, multiple):
    sizes = np.array(vertices, dtype=np.int64)
    pieces = list(divided(range(100, 100 + len(sizes)), sizes, limit, multiple))
    assert [number for piece in pieces for number in piece] == list(range(100, 100 + len(sizes)))
    start = 0
    for piece in pieces:
        end = start + len(piece)
        assert len(piece) and sizes[start:end].max() * len(piece) <= limit
        if end < len(sizes):
            # One multiple more, or one sentence more where a multiple does not fit, would be too
            # many.
            step = multiple if len(piece) >= multiple and len(piece) % multiple == 0 else 1
            following = sizes[start : end + step]
            assert (
                len(following) < len(piece) + step or following.max() * (len(piece) + step) > limit
            )
        start = end


def test_what_fits_stays_together():
    assert [piece.tolist() for piece in divided([4, 2, 9], np.array([3, 3, 3]), 9, 2)] == [
        [4, 2, 9]
    ]
    assert list(divided([], np.array([]), 9)) == []
