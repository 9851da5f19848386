"""The numbers of tokens that sentences have in a batch.

fairseq's own ``sizes`` are larger with some options: with ``--truncate-source`` they count ``</s>``
twice, and with ``--num-batch-buckets`` they count padding.
"""

from typing import Any

import numpy as np
from fairseq.data import (
    AppendTokenDataset,
    BucketPadLengthDataset,
    ConcatDataset,
    LanguagePairDataset,
    TruncateDataset,
)


def source_sizes(data: LanguagePairDataset) -> np.ndarray:
    """The number of tokens of each source, ``</s>`` included: integers ``[n]``."""
    return _sizes(data.src, data.src_sizes)


def target_sizes(data: LanguagePairDataset) -> np.ndarray:
    """The number of tokens of each target, ``</s>`` included: integers ``[n]``. For sentences with
    a raw and a distilled target it is that of the longer one."""
    return _sizes(data.tgt, data.tgt_sizes)


def _sizes(sentences: Any, reported: np.ndarray) -> np.ndarray:
    """The number of tokens of each of ``sentences``, the sources or targets of a data set.
    ``reported``: their sizes as fairseq counts them, returned where these are right."""
    if isinstance(sentences, BucketPadLengthDataset):
        return _sizes(sentences.dataset, sentences.dataset.sizes)
    if isinstance(sentences, ConcatDataset):
        parts = zip(sentences.datasets, sentences.sample_ratios)
        return np.concatenate([np.tile(_sizes(part, part.sizes), times) for part, times in parts])
    cut = getattr(sentences, "dataset", None)
    if isinstance(sentences, AppendTokenDataset) and isinstance(cut, TruncateDataset):
        # The </s> that is appended was stripped before, which fairseq does not subtract.
        return np.minimum(cut.dataset.sizes, cut.truncation_length + 1)
    return reported
