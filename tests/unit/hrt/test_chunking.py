"""The chunk size of each sentence by its source length, as asked for on the command line."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from fairseq_hrt.hrt.chunking import ChunkChooser
from fairseq_hrt.options import DecodingOptions, chunk_table


def chooser(choice, table="inf:1", trained=(2,)):
    options = DecodingOptions(hrt_decode_chunk=choice, hrt_chunk_table=table)
    return ChunkChooser(chunk_table(options, trained))


def test_table_borders():
    several = chooser("auto", "10:1,30:2,inf:3", [2, 3])
    assert several(torch.tensor([0, 1, 10, 11, 30, 31, 500])) == [1, 1, 1, 2, 2, 3, 3]
    assert several.sizes == {1, 2, 3}
    for choice, size in ((None, 2), ("3", 3), ("1", 1)):
        one = chooser(choice, trained=[3, 2])
        assert one(torch.tensor([1, 99])) == [size, size] and one.sizes == {size}


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
    found = chooser("auto", text, [2, 3, 4])
    assert found(torch.tensor(lengths)) == expected and found.sizes == set(sizes)
