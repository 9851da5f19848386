"""The decoder's inputs, made from the source, and training samples."""

from typing import Any, Mapping, NamedTuple, Optional, Tuple

import torch
from torch import Tensor


class InputRule(NamedTuple):
    """How the decoder's inputs are made from a source.

    Attributes:
        scale: λ, positions per source token.
        copies: True: the inputs are the source tokens, each about λ times; False: ``<unk>``.
        most: the largest number of positions that the decoder supports.
        pad, unk: ids of padding and ``<unk>`` in the target dictionary.
    """

    scale: float
    copies: bool
    most: int
    pad: int
    unk: int

    def lengths(self, source_lengths: Tensor) -> Tensor:
        """The number of positions of each sentence, LongTensor ``[B]``: ⌊λ * source tokens⌋, at
        least 1 and at most ``most``."""
        # In floating point 0.7 * 90 is a little less than 63.
        wanted = (self.scale * source_lengths.double() + 1e-6).floor().long()
        return wanted.clamp(1, self.most)

    def inputs(self, source: Tensor, width: Optional[int] = None) -> Tuple[Tensor, Tensor]:
        """(The decoder's inputs, LongTensor ``[B, T]`` padded on the right; the number of positions
        of each sentence, LongTensor ``[B]``).

        Args:
            source: LongTensor ``[B, S]``, padded on either side.
            width: T; None: the positions of the longest sentence, which the host then reads from
                the device.
        """
        real = source.ne(self.pad)  # [B, S]
        source_lengths = real.sum(1)  # [B]
        lengths = self.lengths(source_lengths)
        most = int(lengths.max()) if width is None else width
        place = torch.arange(most, device=source.device)  # [T]
        inside = place < lengths.unsqueeze(1)  # [B, T]
        if not self.copies:
            inputs = torch.full_like(inside, self.unk, dtype=torch.long)
        else:
            # Position t reads the source token ⌊t / λ⌋, behind the padding on the left.
            first = real.int().argmax(1, keepdim=True)  # [B, 1]
            token = (place.double() / self.scale + 1e-6).floor().long()
            token = torch.minimum(token, source_lengths.unsqueeze(1) - 1)  # [B, T]
            inputs = source.gather(1, first + token)
        return inputs.masked_fill(~inside, self.pad), lengths


class CtcSample(NamedTuple):
    """A training batch as the losses read it: the decoder's inputs and the targets.

    Attributes:
        ids: LongTensor ``[B]``, indices of the sentences in the data set, from which random choices
            are drawn.
        update: number of the update; 0 outside training.
        inputs: LongTensor ``[B, T]``, the decoder's inputs, padded on the right.
        lengths: LongTensor ``[B]``, positions of each sentence.
        targets: LongTensor ``[B, n]``, without ``</s>``, padded on the right.
        target_lengths: LongTensor ``[B]``, words of each target.
    """

    ids: Tensor
    update: int
    inputs: Tensor
    lengths: Tensor
    targets: Tensor
    target_lengths: Tensor


def ctc_sample(batch: Mapping[str, Any], rule: InputRule, *, update: int, eos: int) -> CtcSample:
    """The :class:`CtcSample` of a batch; a pure function of its arguments.

    Args:
        batch: a batch of fairseq's :class:`LanguagePairDataset`, whose ``target`` is trained on.
        rule: how the decoder's inputs are made.
        update: number of the update; 0 outside training.
        eos: id of ``</s>``.
    """
    inputs, lengths = rule.inputs(batch["net_input"]["src_tokens"])
    target = batch["target"]  # [B, n + 1], words, </s>, padding
    word = target.ne(rule.pad) & target.ne(eos)
    targets = target.masked_fill(~word, rule.pad)[:, : max(1, target.size(1) - 1)]
    return CtcSample(batch["id"], update, inputs, lengths, targets, word.sum(1))
