"""Hooks, which are called after each decoding step, for traces and pictures of decoding.

For example::

    steps = []
    with generator.watched(steps.append):
        generator.generate(models, sample)
    for step in steps: print(step.stage, step.number, step.tokens)
"""

from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Callable, Iterator, List, Sequence, TypeVar

import torch
from torch import Tensor

from ..native.decoding import Hypothesis


@dataclass(frozen=True)
class DecodingStep:
    """One step of a decoder, announced after its tokens were chosen.

    Attributes:
        stage: the kind of step: ``"autoregressive"``, ``"skip_at"``, ``"skip_cmlm"``, …
        number: 1 for the first decoder call of a batch.
        sentences: LongTensor ``[B]``, indices into the batch of the sentences still decoded.
        positions: LongTensor ``[q]`` or ``[R, q]``, positions of the chosen tokens in the sentence
            (1 = first word).
        tokens: LongTensor ``[R, q]``, the chosen tokens of each row; pad where a row chose nothing.
        scores: log-probabilities: in a parallel pass of each token, ``[R, q]``; in a greedy search
            of each row's token, ``[R]``; in a beam search of each row's hypothesis so far, ``[R]``.
    """

    stage: str
    number: int
    sentences: Tensor
    positions: Tensor
    tokens: Tensor
    scores: Tensor


def single_step(
    stage: str, hypotheses: Sequence[Hypothesis], pad: int, device: torch.device
) -> DecodingStep:
    """The only step of a decoder that writes whole translations in one pass.

    Args:
        stage: the kind of step, see :class:`DecodingStep`.
        hypotheses: one for each sentence.
        pad: id of padding, which fills up shorter translations.
        device: the device of the step's tensors.
    """
    width = max(len(hypothesis.tokens) for hypothesis in hypotheses)

    def padded(rows: Sequence[Sequence[Any]], value: Any) -> Tensor:
        return torch.tensor([[*row, *[value] * (width - len(row))] for row in rows], device=device)

    return DecodingStep(
        stage,
        1,
        torch.arange(len(hypotheses), device=device),
        torch.arange(1, width + 1, device=device),
        padded([hypothesis.tokens for hypothesis in hypotheses], pad),
        padded([hypothesis.positional_scores for hypothesis in hypotheses], 0.0),
    )


StepHook = Callable[[DecodingStep], None]

Hook = TypeVar("Hook")


@contextmanager
def attached(hooks: List[Hook], hook: Hook) -> Iterator[None]:
    """Adds ``hook`` to ``hooks`` while the context lasts; hooks that others add or remove meanwhile
    are left alone."""
    hooks.append(hook)
    try:
        yield
    finally:
        # By identity: an equal hook may have been attached by somebody else.
        place = next(
            (number for number in reversed(range(len(hooks))) if hooks[number] is hook), None
        )
        if place is not None:
            del hooks[place]
