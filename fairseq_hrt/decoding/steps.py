"""Watching a decoder from outside: hooks that see each step.

The search loops know nothing of tables, pictures or terminals; they only announce each step::

    steps = []
    generator.step_hooks.append(steps.append)
    generator.generate(models, sample)
    for step in steps: print(step.stage, step.number, step.tokens)
"""

from dataclasses import dataclass
from typing import Callable

from torch import Tensor


@dataclass(frozen=True)
class DecodingStep:
    """One step of a decoder, announced after its tokens were chosen.

    Attributes:
        stage: ``"autoregressive"``, ``"skip_at"``, ``"skip_cmlm"``, …
        number: 1 for the first decoder call of a batch.
        sentences: LongTensor ``[B]``, indices into the batch of the sentences still decoded.
        positions: LongTensor ``[q]`` or ``[R, q]``, where in the sentence the chosen tokens stand (1 = first word).
        tokens: LongTensor ``[R, q]``, the chosen tokens of each row; pad where a row chose nothing.
        scores: ``[R]`` or ``[R, q]``, their log-probabilities, cumulated in a search, per token in a parallel pass.
    """

    stage: str
    number: int
    sentences: Tensor
    positions: Tensor
    tokens: Tensor
    scores: Tensor


StepHook = Callable[[DecodingStep], None]
