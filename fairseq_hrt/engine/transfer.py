"""Copies the results of a search to the host. Each function makes a single transfer: on a GPU a
transfer waits until everything before it has been computed."""

from typing import List, Tuple

import torch
from torch import Tensor


def to_host(numbers: Tensor, ids: Tensor) -> Tuple[Tensor, Tensor]:
    """Copies two tensors to the CPU in one transfer; the numbers keep every bit.

    Args:
        numbers: float32 or float64 ``[..., P]``.
        ids: integers ``[..., Q]`` below 2 ** 31, with the leading dimensions of ``numbers``.

    Returns:
        (numbers, LongTensor of the ids).
    """
    bits = torch.int32 if numbers.element_size() == 4 else torch.int64
    packed = torch.cat([numbers.contiguous().view(bits), ids.to(bits)], -1).cpu()  # [..., P + Q]
    count = numbers.size(-1)
    return packed[..., :count].contiguous().view(numbers.dtype), packed[..., count:].long()


def lists_to_host(ids: Tensor, numbers: Tensor) -> Tuple[List[List[int]], List[List[float]]]:
    """Copies two tensors ``[R, q]`` into lists in one transfer. Ids travel as ``numbers.dtype``:
    float32 holds ids up to 2 ** 24 exactly."""
    if ids.device.type == "cpu":
        return ids.tolist(), numbers.tolist()
    width = ids.size(1)
    lines = torch.cat([ids.to(numbers.dtype), numbers], 1).tolist()
    return [list(map(int, line[:width])) for line in lines], [line[width:] for line in lines]
