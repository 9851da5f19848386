"""Chunk sizes by source length: what is read from the command line, and the borders."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fairseq_hrt.hrt.chunking import ChunkChooser


@pytest.mark.parametrize(
    "table",
    [
        "",
        "10",
        "10:1",
        "10:1,5:2,inf:1",
        "10:1,10:2,inf:1",
        "ten:1,inf:2",
        "inf:0",
        "10:1,inf:x",
        "10:1;inf:2",
        "nan:2,inf:1",
    ],
)
def test_unreadable_tables_are_shown(table):
    with pytest.raises(ValueError, match="--hrt-chunk-table") as error:
        ChunkChooser.parse("auto", table, [2])
    assert repr(table) in str(error.value) and "10:1,30:2,inf:1" in str(error.value)


def test_table_borders():
    chooser = ChunkChooser.parse("auto", "10:1,30:2,inf:3", [2, 3])
    assert chooser(torch.tensor([0, 1, 10, 11, 30, 31, 500])) == [1, 1, 1, 2, 2, 3, 3]
    assert chooser.sizes == {1, 2, 3}
    assert ChunkChooser.parse(None, "", [3, 2])(torch.tensor([1, 99])) == [2, 2]
    assert ChunkChooser.parse("3", "", [3, 2])(torch.tensor([1, 99])) == [3, 3]


@given(
    limits=st.lists(st.integers(0, 60), unique=True, max_size=4), data=st.data(),
    lengths=st.lists(st.integers(0, 80), min_size=1, max_size=6),
)  # fmt: skip
def test_each_sentence_has_the_size_of_the_first_limit_that_holds_it(limits, data, lengths):
    limits = sorted(limits)
    sizes = [data.draw(st.integers(1, 4)) for _ in range(len(limits) + 1)]
    text = ",".join(f"{limit}:{size}" for limit, size in zip([*limits, "inf"], sizes))
    # The number of limits below a length tells its place in the table.
    expected = [sizes[sum(limit < length for limit in limits)] for length in lengths]
    chooser = ChunkChooser.parse("auto", text, [2])
    assert chooser(torch.tensor(lengths)) == expected and chooser.sizes == set(sizes)


@pytest.mark.parametrize("choice", ["two", "0", "-2", "2.0", "", "²", "Auto"])
def test_a_choice_that_cannot_be_read_is_shown(choice):
    with pytest.raises(ValueError, match=r"--hrt-decode-chunk .* is neither a chunk size \(1, 2, …\) nor auto") as error:
        ChunkChooser.parse(choice, "inf:1", [2])
    assert repr(choice) in str(error.value)


def test_the_table_is_read_for_auto_only():
    for choice, size in ((None, 3), ("5", 5)):
        assert ChunkChooser.parse(choice, "no table", [4, 3])(torch.tensor([7, 70])) == [size, size]
