"""Lists as C reads them."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_hrt.native.runtime.arguments import Shortlist, flatten, listed, shortlist_arrays

HEADER = SimpleNamespace(source_vocabulary=3, target_vocabulary=9)


@given(st.lists(st.lists(st.integers(0, (1 << 31) - 1), max_size=4), max_size=4))
def test_rows_are_found_again(rows):
    flat, offsets = flatten(rows)
    assert [flat[begin:end] for begin, end in zip(offsets, offsets[1:])] == rows
    assert flatten([np.array(row, np.int64) for row in rows])[0][:] == flat[:]


@pytest.mark.parametrize("rows, message", [
    ([[1], [1 << 31]], "2147483648 is not a token id; each source is a list"),
    ([[1], [-1]], "-1 is not a token id"), ([[0.0]], "0.0 is not a token id"),
    ([[1], 2], "source 1: 2 is not a list"),
])  # fmt: skip
def test_what_is_no_row(rows, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        flatten(rows)


def test_what_is_no_list_is_called_by_its_name():
    assert listed(np.arange(2), "x") == listed(range(2), "x") == [0, 1]
    with pytest.raises(ValueError, match="^x of 7: None is not a list$"):
        listed(None, "x of 7")


def test_a_shortlist_for_c():
    found = shortlist_arrays(Shortlist([0, 1, 1, 2], [8, 0], []), HEADER)
    assert [array.tolist() for array in found] == [[0, 1, 1, 2], [8, 0], []]
    assert [array.dtype for array in found] == [np.int64, np.int32, np.int32]


@pytest.mark.parametrize("change, message", [
    ({"offsets": [0, 1]}, "made for 1 source words, the model has 3; make it again"),
    ({"candidates": [9, 1]}, "candidates hold the id 9; the model has 9 target words"),
    ({"always": [-1]}, "always hold the id -1"),
    ({"always": [1.5]}, "always are float64 of the shape [1], not a list of token ids"),
    ({"candidates": [[1]]}, "candidates are int64 of the shape [1, 1], not a list"),
])  # fmt: skip
def test_a_shortlist_of_other_dictionaries(change, message):
    given = {"offsets": [0, 1, 1, 2], "candidates": [8, 0], "always": [1], **change}
    with pytest.raises(ValueError, match=re.escape(message)):
        shortlist_arrays(Shortlist(**given), HEADER)
