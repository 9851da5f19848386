"""Training samples in slots (see :mod:`.slots`)."""

from typing import Any, NamedTuple, Optional

import torch
from torch import Tensor

from .slots import natural_index, start_symbols


class SlotSample(NamedTuple):
    """The targets of a training batch in W slots, the target positions in the order of writing.

    Attributes:
        input: LongTensor ``[B, W]``, what the decoder reads: z start symbols (z words are written
            per step), then the words. W is a multiple of z.
        target: LongTensor ``[B, W]``, the word to predict in each slot; padding has no loss.
    """

    input: Tensor
    target: Tensor

    def learnt(self, pad: int) -> Tensor:
        """Indices into the flattened ``target`` of the n slots that have a loss, all but those with
        ``pad``, the id of padding: LongTensor ``[n]``. Synchronises with the device, to count
        them."""
        return self.target.flatten().ne(pad).nonzero().squeeze(1)


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
    """Puts a batch of targets into slots, the decoder's positions in the order of writing.

    Decoding always computes whole blocks, so training does, too. If z does not divide the N tokens
    of a target, its last block has dead slots after ``</s>``. Their decoder inputs are words of the
    target, as in decoding (never ``</s>`` or padding), but they have no loss. Padding fills later
    blocks, which no earlier slot attends to.

    Args:
        targets: LongTensor ``[B, T]``, natural order with ``</s>``, padded on the right.
        directions: h, the directions of writing.
        block: z, slots predicted in one step.
        start: id of the start symbol of left-to-right directions.
        opposite_start: id of the start symbol of right-to-left directions; None: ``start``.
        pad, eos: ids of padding and ``</s>``.
        middle_to_side: with two directions, write from the middle to both ends instead.
        train_dead_slots: True gives dead slots the target ``</s>``, and so a loss.
    """
    scored = targets.ne(pad).sum(1, keepdim=True)  # [B, 1], N
    width = block * -(-targets.size(1) // block)
    slots = torch.arange(width, device=targets.device)  # [W]
    filled = torch.nn.functional.pad(targets, (0, width - targets.size(1)), value=pad)
    ordered = filled.gather(  # [B, W]
        1, natural_index(slots, scored - 1, directions, middle_to_side=middle_to_side)
    )
    starts = start_symbols(block, directions, start=start, opposite=opposite_start).to(ordered)
    delayed = torch.cat([starts.expand(len(ordered), block), ordered[:, : width - block]], 1)
    if train_dead_slots:
        ends = -(-scored // block) * block  # [B, 1]
        ordered = ordered.masked_fill((slots >= scored) & (slots < ends), eos)  # [B, W]
    return SlotSample(delayed, ordered)


def training_view(targets: Tensor, decoder: Any, *, train_dead_slots: bool = False) -> SlotSample:
    """Puts a batch of targets into the order in which a decoder writes them.

    Args:
        targets: LongTensor ``[B, T]``, natural order with ``</s>``, padded on the right.
        decoder: the model's decoder, whose slot order and start symbols are used.
        train_dead_slots: whether slots after ``</s>`` in its block have a loss.
    """
    return slot_sample(
        targets,
        decoder.directions,
        decoder.block,
        start=decoder.dictionary.eos(),
        pad=decoder.padding_idx,
        eos=decoder.dictionary.eos(),
        opposite_start=decoder.opposite_start,
        middle_to_side=decoder.middle_to_side,
        train_dead_slots=train_dead_slots,
    )
