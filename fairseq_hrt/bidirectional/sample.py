"""Training samples in slots; :mod:`.slots` defines a slot."""

from dataclasses import dataclass
from typing import Any, Mapping, NamedTuple, Optional

import torch
from torch import Tensor

from ..training import choose_targets, draw_raw
from .slots import natural_index, start_symbols


class SlotSample(NamedTuple):
    """A training batch in slots.

    Attributes:
        input: LongTensor ``[B, W]``, start symbols and delayed words; W is a multiple of z.
        target: LongTensor ``[B, W]``, what each slot predicts, pad where nothing is learnt.
    """

    input: Tensor
    target: Tensor


def slot_sample(
    targets: Tensor,
    directions: int,
    block: int,
    *,
    start: int,
    pad: int,
    eos: int,
    opposite_start: Optional[int] = None,
    middle_to_side: bool = False,
    train_dead_slots: bool = False,
) -> SlotSample:
    """Puts a batch of targets into slots.

    Where z does not divide N the last block has dead slots behind ``</s>``. Decoding always has
    them, so every sentence has its whole last block here as well: their inputs are real words
    (never ``</s>`` or pad), only their loss is left out. Behind them is padding, in blocks that no
    real slot attends.

    Args:
        targets: LongTensor ``[B, T]``, natural order with ``</s>``, padded on the right.
        directions: h.
        block: z, slots predicted in one step.
        start, opposite_start: ids of the start symbols, see :func:`.slots.start_symbols`.
        pad, eos: ids.
        middle_to_side: see :func:`.slots.natural_index`.
        train_dead_slots: dead slots learn to say ``</s>``.
    """
    scored = targets.ne(pad).sum(1, keepdim=True)
    width = block * -(-targets.size(1) // block)
    slots = torch.arange(width, device=targets.device)
    filled = torch.nn.functional.pad(targets, (0, width - targets.size(1)), value=pad)
    ordered = filled.gather(
        1, natural_index(slots, scored - 1, directions, middle_to_side=middle_to_side)
    )
    starts = start_symbols(block, directions, start=start, opposite=opposite_start).to(ordered)
    delayed = torch.cat([starts.expand(len(ordered), block), ordered[:, : width - block]], 1)
    if train_dead_slots:
        ends = -(-scored // block) * block
        ordered = ordered.masked_fill((slots >= scored) & (slots < ends), eos)
    return SlotSample(delayed, ordered)


@dataclass(frozen=True)
class ViewConfig:
    """What a training view depends on besides the batch.

    Attributes:
        directions, block: h and z.
        start, pad, eos: ids.
        opposite_start, middle_to_side, train_dead_slots: see :func:`slot_sample`.
        raw_probability: share of sentences that learn their raw target where there is a distilled
            one.
    """

    directions: int
    block: int
    start: int
    pad: int
    eos: int
    opposite_start: Optional[int] = None
    middle_to_side: bool = False
    train_dead_slots: bool = False
    raw_probability: float = 0.0


def training_view(
    batch: Mapping[str, Any], *, seed: int, update: int, config: ViewConfig
) -> SlotSample:
    """What a batch teaches in an update: raw or distilled targets, drawn for each sentence, in
    slots.

    A function of its arguments alone, so that neither workers, nor a resumed training, nor other
    sentences of the batch change what a sentence teaches.

    Args:
        batch: ``id`` ``[B]``, ``target`` ``[B, T]`` and, where there are two targets,
            ``distilled_target`` ``[B, T']``.
        seed: of the training.
        update: number of the update.
    """
    targets = batch["target"]
    if "distilled_target" in batch:
        use_raw = draw_raw(seed, update, batch["id"], config.raw_probability)
        targets = choose_targets(targets, batch["distilled_target"], use_raw, pad=config.pad)
    return slot_sample(
        targets,
        config.directions,
        config.block,
        start=config.start,
        pad=config.pad,
        eos=config.eos,
        opposite_start=config.opposite_start,
        middle_to_side=config.middle_to_side,
        train_dead_slots=config.train_dead_slots,
    )
