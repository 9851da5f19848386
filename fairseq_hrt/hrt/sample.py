"""A target sentence and its four training samples.

With y_1 … y_N the target, K the chunk size, L = K * ceil((N + 1) / K), m = L / K and p = y_1 … y_N
filled up with ``</s>`` to L tokens::

    task        input                          positions           target           mask
    AT          <s> y_1 … y_N                  0 … N               y_1 … y_N </s>   causal
    CMLM        y_1 … y_N </s>, some masked    1 … N + 1           masked tokens    none
    Skip-AT     <s_K> p_K p_2K … p_(m-1)K      0, K, 2K, …         p_K p_2K … p_mK  causal
    Skip-CMLM   p, all but multiples of K      1 … L               masked tokens    none
                masked

The token y_j sits at position j in all four, so that the shared decoder never sees it elsewhere.
Targets of Skip-AT and loss positions of Skip-CMLM together cover 1 … L exactly once, and
Skip-CMLM's input is what stage II of decoding builds from the tokens that stage I found.
"""

from typing import List, NamedTuple, Sequence

import torch
from torch import Tensor


class SampleView(NamedTuple):
    """Decoder inputs, their positions and what is to be predicted at each; all LongTensors
    ``[..., T]``.

    Where ``target`` is pad nothing is learnt; where ``input`` is pad the row has ended.
    """

    input: Tensor
    positions: Tensor
    target: Tensor


class TrainingViews(NamedTuple):
    """The two samples of each sentence in a training step.

    Attributes:
        causal: AT, or Skip-AT for sentences with a chunk size above 1.
        parallel: CMLM, or Skip-CMLM.
        chunk_sizes: LongTensor ``[B]``, 1 for AT and CMLM.
    """

    causal: SampleView
    parallel: SampleView
    chunk_sizes: Tensor


def skip_cmlm_input(kept: Sequence[int], chunk_size: int, *, mask: int) -> List[int]:
    """Input of stage II: K - 1 masks before every token of stage I.

    Args:
        kept: the m tokens of stage I, the final ``</s>`` included.

    Returns:
        m * K tokens.
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
    """The samples of a whole batch (HRT, Table 1), padded.

    Args:
        targets: LongTensor ``[B, T]``, right-padded, ``</s>`` included (T = longest N + 1).
        chunk_sizes: LongTensor ``[B]``, K of each sentence; 1 asks for AT and CMLM.
        starts: LongTensor ``[B]``, start symbol of each sentence.
        masked: BoolTensor ``[B, T]``, what CMLM masks; read where K is 1.
        learn_tail: predict ``</s>`` at masked positions behind the first ``</s>``; False learns
            nothing there.
    """
    lengths = targets.ne(pad).sum(1, keepdim=True)
    chunks = chunk_sizes.unsqueeze(1)
    steps = torch.div(lengths + chunks - 1, chunks, rounding_mode="floor")
    width = int((steps * chunks).max())
    # p_j stands in column j - 1.
    filled = torch.nn.functional.pad(targets, (0, width - targets.size(1)), value=eos)
    positions = torch.arange(1, width + 1, device=targets.device).unsqueeze(0)
    filled = torch.where(positions > lengths, eos, filled)

    number = torch.arange(int(steps.max()), device=targets.device).unsqueeze(0)
    inside = number < steps
    places = (number * chunks).clamp(max=width - 1)
    before = filled.gather(1, (places - 1).clamp(min=0))
    causal = SampleView(
        input=torch.where(inside, torch.where(number == 0, starts.unsqueeze(1), before), pad),
        positions=places * inside,
        target=torch.where(
            inside, filled.gather(1, (places + chunks - 1).clamp(max=width - 1)), pad
        ),
    )

    inside = positions <= steps * chunks
    masked = torch.nn.functional.pad(masked, (0, width - masked.size(1)))
    hidden = torch.where(chunks == 1, masked, positions % chunks != 0) & inside
    learnt = hidden if learn_tail else hidden & (positions <= lengths)
    parallel = SampleView(
        input=torch.where(inside, torch.where(hidden, mask, filled), pad),
        positions=positions * inside,
        target=torch.where(learnt, filled, pad),
    )
    return TrainingViews(causal, parallel, chunk_sizes)
