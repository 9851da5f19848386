"""Parallel decoding of tiny models, and what it has to equal: greedy decoding, token by token."""

from typing import Any, Dict, List, Optional, Sequence

import torch

from fairseq_hrt.engine.generator import AutoregressiveGenerator
from fairseq_hrt.jacobi.drafts import Drafter
from fairseq_hrt.jacobi.generator import JacobiGenerator
from fairseq_hrt.native.options.values import DecodingOptions

MODE_OPTIONS = [
    dict(mode="frontier", window=1),
    dict(mode="frontier", window=3),
    dict(mode="frontier", window=50),
    dict(mode="pj"),
    dict(mode="pgj", block_size=2),
    dict(mode="pgj", block_size=5),
    dict(mode="pj", known_length=True),
    dict(mode="pgj", block_size=4, known_length=True),
    dict(mode="hgj", block_size=3, prefix_length=4),
    dict(mode="hgj", block_size=3, prefix_length=0),
    dict(mode="hgj", block_size=4),
]


def make_generator(
    tiny: Any,
    models: Sequence[Any],
    *,
    drafter: Optional[Drafter] = None,
    symbols: int = 12,
    options: Optional[Dict[str, Any]] = None,
    draft: str = "previous",
    **config: Any,
) -> JacobiGenerator:
    """The generator; options of the family without their prefix."""
    own = {f"jacobi_{name}": value for name, value in config.items()}
    chosen = DecodingOptions(**{"beam": 1, "jacobi_draft": draft, **own, **(options or {})})
    return JacobiGenerator(models, tiny.dictionary(symbols), chosen, drafter=drafter or Drafter())


def greedy(
    tiny: Any,
    models: Sequence[Any],
    sample: Dict[str, Any],
    *,
    symbols: int = 12,
    options: Optional[Dict[str, Any]] = None,
    **more: Any,
) -> List[List[Dict[str, Any]]]:
    """What the engine's search finds, one token at a time."""
    generator = AutoregressiveGenerator(
        models, tiny.dictionary(symbols), DecodingOptions(beam=1, **(options or {}))
    )
    return generator.generate(models, sample, **more)


def assert_same(found: Sequence[Any], expected: Sequence[Any]) -> None:
    """Tokens, their scores and the score of each best translation are equal."""
    for (mine,), (other,) in zip(found, expected):
        assert mine["tokens"].tolist() == other["tokens"].tolist()
        torch.testing.assert_close(
            mine["positional_scores"], other["positional_scores"], rtol=0, atol=1e-6
        )
        torch.testing.assert_close(mine["score"], other["score"], rtol=0, atol=1e-6)
