"""Conversion of hypotheses to and from the dictionaries that fairseq's generators return."""

from typing import Any, Dict

import torch

from ..native.decoding import Hypothesis


def to_fairseq(hypothesis: Hypothesis) -> Dict[str, Any]:
    """Converts a hypothesis to the dictionary that fairseq's command line tools read.

    fairseq prints ``steps`` with ``--print-step``, ``history`` with ``--retain-iter-history`` and
    ``alignment`` (pairs of source and target index without ``</s>``) with ``--print-alignment``.
    ``token_steps``, ``token_directions`` and ``token_vertices`` are additions of this package.
    Tensors are new, since ``fairseq-generate`` divides the scores in place.
    """
    where = {
        "token_directions": hypothesis.token_directions,
        "token_vertices": hypothesis.token_vertices,
    }
    pairs = [(place, number) for number, place in enumerate(hypothesis.alignment[:-1])]
    return {
        **{name: torch.tensor(values) for name, values in where.items() if values},
        "tokens": torch.tensor(hypothesis.tokens, dtype=torch.long),
        "score": None if hypothesis.score is None else torch.tensor(hypothesis.score),
        "positional_scores": torch.tensor(hypothesis.positional_scores, dtype=torch.float),
        "attention": torch.empty(0),
        "alignment": pairs,
        "steps": hypothesis.steps,
        "token_steps": torch.tensor(hypothesis.token_steps, dtype=torch.long),
        "history": [
            {"tokens": torch.tensor(tokens, dtype=torch.long)} for tokens in hypothesis.history
        ],
    }


def from_fairseq(found: Dict[str, Any]) -> Hypothesis:
    """Converts a hypothesis of fairseq's generators and scorers, or of this package's scorers."""
    tokens, score, steps = found["tokens"].tolist(), found["score"], found.get("token_steps")
    scores = found["positional_scores"]
    return Hypothesis(
        tokens=tokens,
        score=None if score is None else float(score),
        positional_scores=[] if scores is None else scores.tolist(),
        token_steps=[] if steps is None else steps.tolist(),
        steps=int(found.get("steps", len(tokens))),
    )
