"""What a training batch of graphs consists of."""

from typing import NamedTuple

import torch
from torch import Tensor


class GraphSample(NamedTuple):
    """Targets and graph sizes of a batch.

    Attributes:
        ids: LongTensor ``[B]``, numbers of the pairs in the data set, for random choices.
        update: number of the update; 0 outside training.
        targets: LongTensor ``[B, T]``, ``<s> y_1 … y_n </s>``, padded on the right.
        target_lengths: LongTensor ``[B]``, n + 2.
        source_lengths: LongTensor ``[B]``, source tokens with ``</s>``.
        vertex_lengths: LongTensor ``[B]``, L.
    """

    ids: Tensor
    update: int
    targets: Tensor
    target_lengths: Tensor
    source_lengths: Tensor
    vertex_lengths: Tensor


def whole_targets(targets: Tensor, *, bos: int) -> Tensor:
    """fairseq's targets ``[B, n + 1]`` with ``<s>`` in front: ``[B, T]``."""
    return torch.cat([targets.new_full((len(targets), 1), bos), targets], 1)


def vertex_inputs(vertex_lengths: Tensor, *, bos: int, unk: int, eos: int, pad: int) -> Tensor:
    """Decoder input ``<s> <unk> … <unk> </s>``: LongTensor ``[B, L]``."""
    vertex = torch.arange(int(vertex_lengths.max()), device=vertex_lengths.device)
    last = vertex_lengths.unsqueeze(1) - 1
    inputs = torch.where(vertex < last, unk, pad)
    inputs = inputs.masked_fill(vertex == last, eos)
    inputs[:, 0] = bos
    return inputs
