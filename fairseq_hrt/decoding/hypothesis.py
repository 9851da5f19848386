"""A finished translation, and the dictionary that fairseq's command line tools read."""

from dataclasses import dataclass, field
from typing import Any, Dict, List

import torch


@dataclass
class Hypothesis:
    """One finished translation.

    Attributes:
        tokens: dictionary ids, ``</s>`` included.
        score: what hypotheses are ranked by; higher is better.
        positional_scores: log-probability of each token.
        token_steps: decoder call (1 = first) in which each token was fixed.
        steps: decoder calls that the sentence needed.
        token_directions: direction that wrote each token, where there are several.
        token_vertices: where tokens are written into a graph, the vertex of each.
        alignment: if asked for, the source token that each token looks at, counted from 0.
        history: the partial translations after each step, if asked for; ``<unk>`` stands for an open position.
    """

    tokens: List[int]
    score: float
    positional_scores: List[float]
    token_steps: List[int]
    steps: int
    history: List[List[int]] = field(default_factory=list)
    token_directions: List[int] = field(default_factory=list)
    token_vertices: List[int] = field(default_factory=list)
    alignment: List[int] = field(default_factory=list)

    def to_fairseq(self) -> Dict[str, Any]:
        """The dictionary of fairseq's generator contract.

        ``steps`` and ``history`` appear through the stock ``--print-step`` and ``--retain-iter-history``;
        ``token_steps``, ``token_directions`` and ``token_vertices`` are ours. Tensors are fresh, since ``fairseq-generate`` divides the
        scores in place.
        """
        where = {"token_directions": self.token_directions, "token_vertices": self.token_vertices}
        return {
            **{name: torch.tensor(values) for name, values in where.items() if values},
            "tokens": torch.tensor(self.tokens, dtype=torch.long),
            "score": torch.tensor(self.score),
            "positional_scores": torch.tensor(self.positional_scores, dtype=torch.float),
            "attention": torch.empty(0),
            "alignment": torch.tensor(self.alignment) if self.alignment else torch.empty(0, 2, dtype=torch.long),
            "steps": self.steps,
            "token_steps": torch.tensor(self.token_steps, dtype=torch.long),
            "history": [{"tokens": torch.tensor(tokens, dtype=torch.long)} for tokens in self.history],
        }
