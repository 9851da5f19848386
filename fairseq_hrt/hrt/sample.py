"""A target sentence and its four training samples.

With y_1 … y_N the target, K the chunk size, L = K * ceil((N + 1) / K), m = L / K and p = y_1 … y_N
filled up with ``</s>`` to L tokens::

    task        input                          positions           target           mask
    AT          <s> y_1 … y_N                  0 … N               y_1 … y_N </s>   causal
    CMLM        y_1 … y_N </s>, some masked    1 … N + 1           masked tokens    none
    Skip-AT     <s_K> p_K p_2K … p_(m-1)K      0, K, 2K, …         p_K p_2K … p_mK  causal
    Skip-CMLM   p, all but multiples of K      1 … L               masked tokens    none
                masked

For example, with K = 2 and N = 5, Skip-AT reads <s_2> y_2 y_4 and predicts y_2 y_4 </s>; Skip-CMLM
reads M y_2 M y_4 M </s> and predicts y_1, y_3 and y_5 at the masks M.

The token y_j has position j in all four tasks. The targets of Skip-AT and Skip-CMLM together cover
1 … L exactly once, and the input of Skip-CMLM is the one that stage II of decoding builds from the
tokens of stage I.
"""

from typing import List, NamedTuple, Sequence

import torch
from torch import Tensor


class SampleView(NamedTuple):
    """Decoder inputs, their positions and the token to predict at each, LongTensors ``[..., T]``.

    Positions where ``target`` is padding have no loss; ``input`` is padding after the end of a
    row.
    """

    input: Tensor
    positions: Tensor
    target: Tensor

    def learnt(self, pad: int) -> Tensor:
        """Indices into the flattened ``target`` of the n tokens that have a loss, all but ``pad``,
        the id of padding: LongTensor ``[n]``. Synchronises with the device, to count them."""
        return self.target.flatten().ne(pad).nonzero().squeeze(1)


class TrainingViews(NamedTuple):
    """The two samples of each sentence in a training step.

    Attributes:
        causal: samples of AT (left to right), or of Skip-AT (every K-th token) for sentences with a
            chunk size K above 1.
        parallel: samples of CMLM (masked words), or of Skip-CMLM (the tokens that Skip-AT leaves
            out) for sentences with K above 1.
        chunk_sizes: LongTensor ``[B]``, 1 for AT and CMLM.
    """

    causal: SampleView
    parallel: SampleView
    chunk_sizes: Tensor


def skip_cmlm_input(kept: Sequence[int], chunk_size: int, *, mask: int) -> List[int]:
    """Input of stage II: K - 1 masks before every token of stage I.

    Args:
        kept: the m tokens of stage I, with the final ``</s>``.
        chunk_size: K.
        mask: id of the mask symbol.

    Returns:
        m * K tokens, e.g. M y_2 M y_4 M ``</s>``.
    """
    filled = [mask] * (chunk_size * len(kept))
    filled[chunk_size - 1 :: chunk_size] = kept
    return filled


def training_views(
    targets: Tensor,
    chunk_sizes: Tensor,
    *,
    starts: Tensor,
    masked: Tensor,
    eos: int,
    mask: int,
    pad: int,
    learn_tail: bool = True,
) -> TrainingViews:
    """The training samples of a whole batch (HRT, Table 1), padded.

    Args:
        targets: LongTensor ``[B, T]``, right-padded, ``</s>`` included (T = longest N + 1).
        chunk_sizes: LongTensor ``[B]``, K of each sentence; 1 asks for AT and CMLM.
        starts: LongTensor ``[B]``, start symbol of each sentence.
        masked: BoolTensor ``[B, T]``, the positions that CMLM masks; read for K = 1 only.
        eos, mask, pad: ids of ``</s>``, the mask symbol and padding.
        learn_tail: True trains masked positions behind the first ``</s>`` to predict ``</s>``;
            False gives them no loss.
    """
    lengths = targets.ne(pad).sum(1, keepdim=True)  # [B, 1], N + 1
    chunks = chunk_sizes.unsqueeze(1)  # [B, 1], K
    steps = torch.div(lengths + chunks - 1, chunks, rounding_mode="floor")  # [B, 1], m
    # In one transfer from the device.
    width, most = torch.stack([(steps * chunks).max(), steps.max()]).tolist()
    # [B, W], W the longest L: p_j stands in column j - 1.
    filled = torch.nn.functional.pad(targets, (0, width - targets.size(1)), value=eos)
    positions = torch.arange(1, width + 1, device=targets.device).unsqueeze(0)  # [1, W]
    filled = torch.where(positions > lengths, eos, filled)  # [B, W]

    number = torch.arange(most, device=targets.device).unsqueeze(0)  # [1, m]
    inside = number < steps  # [B, m]
    places = (number * chunks).clamp(max=width - 1)  # [B, m], 0, K, 2K, …
    before = filled.gather(1, (places - 1).clamp(min=0))  # [B, m], the token at each place
    causal = SampleView(
        input=torch.where(inside, torch.where(number == 0, starts.unsqueeze(1), before), pad),
        positions=places * inside,
        target=torch.where(
            inside, filled.gather(1, (places + chunks - 1).clamp(max=width - 1)), pad
        ),
    )

    inside = positions <= steps * chunks  # [B, W]
    masked = torch.nn.functional.pad(masked, (0, width - masked.size(1)))
    hidden = torch.where(chunks == 1, masked, positions % chunks != 0) & inside  # [B, W]
    learnt = hidden if learn_tail else hidden & (positions <= lengths)
    parallel = SampleView(
        input=torch.where(inside, torch.where(hidden, mask, filled), pad),
        positions=positions * inside,
        target=torch.where(learnt, filled, pad),
    )
    return TrainingViews(causal, parallel, chunk_sizes)
