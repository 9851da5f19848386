"""What a search has chosen, brought to the host in one piece: on a GPU every transfer waits for all
that was computed before it."""

from typing import List, Tuple

import torch
from torch import Tensor


def to_host(numbers: Tensor, ids: Tensor) -> Tuple[Tensor, Tensor]:
    """Both tensors on the CPU, bit by bit the same, by a single transfer.

    Args:
        numbers: float32 or float64 ``[..., P]``.
        ids: integers ``[..., Q]`` below 2 ** 31, with the leading dimensions of ``numbers``.

    Returns:
        (numbers, LongTensor of the ids).
    """
    bits = torch.int32 if numbers.element_size() == 4 else torch.int64
    packed = torch.cat([numbers.contiguous().view(bits), ids.to(bits)], -1).cpu()
    count = numbers.size(-1)
    return packed[..., :count].contiguous().view(numbers.dtype), packed[..., count:].long()


def lists_to_host(ids: Tensor, numbers: Tensor) -> Tuple[List[List[int]], List[List[float]]]:
    """Two tensors ``[R, q]`` as lists, from a device in one transfer: a float32 holds every id up
    to 2 ** 24 exactly."""
    if ids.device.type == "cpu":
        return ids.tolist(), numbers.tolist()
    width = ids.size(1)
    lines = torch.cat([ids.to(numbers.dtype), numbers], 1).tolist()
    return [list(map(int, line[:width])) for line in lines], [line[width:] for line in lines]
