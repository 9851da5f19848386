"""Sizes of sentences are those of the batches, whatever fairseq's options add."""

import numpy as np
import pytest
import torch
from fairseq.data import (
    AppendTokenDataset,
    ConcatDataset,
    LanguagePairDataset,
    ListDataset,
    StripTokenDataset,
    TruncateDataset,
)

from fairseq_hrt.training.distillation import shortest_target_sizes
from fairseq_hrt.training.sentence_sizes import source_sizes, target_sizes

# Words of each sentence, </s> excluded; 4 and 5 stand on both sides of the longest source.
WORDS = [1, 7, 4, 2, 5, 3]
LONGEST = 5


def sentences(words, eos):
    lines = [torch.tensor([5] * count + [eos]) for count in words]
    return ListDataset(lines, np.array([len(line) for line in lines]))


def truncated(lines, eos):
    """As ``--truncate-source`` does it."""
    return AppendTokenDataset(TruncateDataset(StripTokenDataset(lines, eos), LONGEST - 1), eos)


@pytest.mark.parametrize("buckets", [0, 2])
@pytest.mark.parametrize("files", [1, 2])
@pytest.mark.parametrize("cut", [False, True])
def test_sizes_are_those_of_the_batches(tiny, cut, files, buckets):
    parts = [sentences(WORDS, tiny.EOS)] * files
    targets = [sentences(WORDS[::-1], tiny.EOS)] * files
    sources = [truncated(part, tiny.EOS) if cut else part for part in parts]
    source, target = (
        side[0] if files == 1 else ConcatDataset(side, [3, 1]) for side in (sources, targets)
    )
    data = LanguagePairDataset(
        source, source.sizes, tiny.dictionary(), target, target.sizes, tiny.dictionary(),
        num_buckets=buckets,
    )  # fmt: skip
    batch = data.collater([data[number] for number in range(len(data))])
    order = batch["id"].numpy()
    assert source_sizes(data)[order].tolist() == batch["net_input"]["src_lengths"].tolist()
    expected = batch["target"].ne(tiny.PAD).sum(1).tolist()
    assert target_sizes(data)[order].tolist() == expected
    assert shortest_target_sizes(data, 0.0)[order].tolist() == expected
    # fairseq's own sizes differ, or this test would compare nothing.
    assert (data.src_sizes.tolist() != source_sizes(data).tolist()) == (cut or buckets > 0)
