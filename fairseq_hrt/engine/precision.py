"""Half precision in decoding: sums that need float32 all the same, and ``--bf16``, which fairseq's
decoding commands silently ignore."""

import math
from functools import partial
from typing import Any, Mapping, Optional, Sequence

import torch
from omegaconf import DictConfig
from torch import Tensor

from ..ops import at_least_float32
from .layers import FairseqModule


def log_softmax(logits: Tensor) -> Tensor:
    """Log-probabilities ``[..., V]``, float32 or float64."""
    return torch.log_softmax(logits, -1, dtype=at_least_float32(logits.dtype))


def log_mean(parts: Sequence[Tensor]) -> Tensor:
    """log((p_1 + … + p_n) / n), an ensemble's prediction, given log p_1 … log p_n of equal
    shape."""
    total: Optional[Tensor] = None
    for part in parts:
        total = part if total is None else torch.logaddexp(total, part)
    if total is None:
        raise ValueError("nothing to average: give the log-probabilities of at least one model")
    return total if len(parts) == 1 else total - math.log(len(parts))


def log_probs_of(
    models: Sequence[FairseqModule], source: Mapping[str, Tensor], words: Tensor, **views: Any
) -> Tensor:
    """The log-probabilities ``[n]`` of ``words`` ``[n]``, by an ensemble (:func:`log_mean`).

    Args:
        models: their forward pass returns the logits ``[n, V]`` for these words; they are switched
            to evaluation mode.
        source: has ``src_tokens`` and ``src_lengths``.
        views: further arguments of the forward pass: the targets in the form in which the family's
            training passes them.
    """
    parts = []
    for model in models:
        model.eval()
        logits = model(src_tokens=source["src_tokens"], src_lengths=source["src_lengths"], **views)
        parts.append(log_softmax(logits).gather(1, words.unsqueeze(1)).squeeze(1))  # [n]
    return log_mean(parts)


def follow_precision(model: FairseqModule) -> None:
    """Makes fairseq's decoding commands honour ``--bf16`` for this model.

    The commands call ``model.prepare_for_inference_(cfg)`` between loading and decoding: the cast
    is added there.
    """
    model.prepare_for_inference_ = partial(_prepare, model)


def on_device(models: Sequence[FairseqModule], like: FairseqModule) -> bool:
    """Moves ``models`` to the device of ``like`` and casts them to its dtype.

    Returns:
        Whether any model had to be moved or cast.
    """
    wanted: Optional[torch.nn.Parameter] = next(like.parameters(), None)
    if wanted is None:
        return False
    strangers = [
        model
        for model in models
        if any(
            (own.device, own.dtype) != (wanted.device, wanted.dtype) for own in model.parameters()
        )
    ]
    for model in strangers:
        model.to(device=wanted.device, dtype=wanted.dtype)
    return bool(strangers)


def _prepare(model: FairseqModule, cfg: DictConfig) -> None:
    """Casts the model if ``--bf16`` is given, then calls the ``prepare_for_inference_`` of its
    class.

    Raises:
        ValueError: ``--amp``, which decoding cannot honour.
    """
    if cfg.common.amp:
        raise ValueError("--amp is for training; decode with --fp16 (GPU) or --bf16")
    if cfg.common.bf16:
        model.bfloat16()
    type(model).prepare_for_inference_(model, cfg)
