"""Half precision in decoding: what must not be computed in it, and ``--bf16``, which fairseq's
commands pass over without a word."""

import math
from functools import partial
from typing import Any, Mapping, Optional, Sequence

import torch
from omegaconf import DictConfig
from torch import Tensor

from .layers import FairseqModule


def at_least_float32(dtype: torch.dtype) -> torch.dtype:
    """The type for sums of exponentials: float32 instead of half precision, which cannot tell their
    tail apart."""
    return torch.float32 if dtype.itemsize < 4 else dtype


def log_softmax(logits: Tensor) -> Tensor:
    """Log-probabilities ``[..., V]``, float32 or float64."""
    return torch.log_softmax(logits, -1, dtype=at_least_float32(logits.dtype))


def log_mean(parts: Sequence[Tensor]) -> Tensor:
    """The logarithm of the mean of probabilities, given by their logarithms: what an ensemble
    predicts."""
    total: Optional[Tensor] = None
    for part in parts:
        total = part if total is None else torch.logaddexp(total, part)
    if total is None:
        raise ValueError("nothing to average: an ensemble has at least one model")
    return total if len(parts) == 1 else total - math.log(len(parts))


def log_probs_of(
    models: Sequence[FairseqModule], source: Mapping[str, Tensor], words: Tensor, **views: Any
) -> Tensor:
    """log P of known ``words`` ``[n]`` under the averaged probabilities of models that compute
    logits ``[n, V]`` for them, from what they are trained with (``views``)."""
    parts = []
    for model in models:
        model.eval()
        logits = model(src_tokens=source["src_tokens"], src_lengths=source["src_lengths"], **views)
        parts.append(log_softmax(logits).gather(1, words.unsqueeze(1)).squeeze(1))
    return log_mean(parts)


def follow_precision(model: FairseqModule) -> None:
    """Makes fairseq's decoding commands honour ``--bf16`` for this model.

    They call ``prepare_for_inference_`` with their whole configuration once the model is on its
    device; for a model of fairseq's own there is no other place between loading and decoding.
    """
    model.prepare_for_inference_ = partial(_prepare, model)


def on_device(models: Sequence[FairseqModule], like: FairseqModule) -> bool:
    """Moves and casts models to where another one is, and to its precision.

    Returns:
        Whether anything had to be moved.
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
    """What the model's class does, after the cast.

    Raises:
        ValueError: ``--amp``, which decoding cannot honour.
    """
    if cfg.common.amp:
        raise ValueError("--amp is for training; decode with --fp16 (GPU) or --bf16")
    if cfg.common.bf16:
        model.bfloat16()
    type(model).prepare_for_inference_(model, cfg)
