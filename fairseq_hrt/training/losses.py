"""What the families' criterions share."""

import math
from typing import Any, Dict, Sequence

from fairseq.logging import metrics

# Bits in a nat: fairseq logs base 2.
BITS = 1 / math.log(2)


def check_label_smoothing(epsilon: float) -> float:
    """Returns a valid ``--label-smoothing``.

    Raises:
        ValueError: it is none.
    """
    if not 0 <= epsilon < 1:
        raise ValueError(f"--label-smoothing {epsilon} must lie in [0, 1)")
    return epsilon


def log_losses(logging_outputs: Sequence[Dict[str, Any]]) -> None:
    """Logs ``loss`` and ``nll_loss`` in bits per token and ``ppl`` = 2 ** nll_loss, from sums over batches and workers."""

    def total(key: str) -> float:
        return sum(float(log.get(key, 0)) for log in logging_outputs)

    tokens = total("sample_size")
    for name in ("loss", "nll_loss"):
        metrics.log_scalar(name, BITS * total(name) / max(tokens, 1), tokens, round=3)
    metrics.log_derived("ppl", lambda meters: 2 ** min(meters["nll_loss"].avg, 1000))
