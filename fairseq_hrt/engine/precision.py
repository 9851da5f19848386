"""Half precision in decoding: fairseq's commands know ``--fp16`` only and pass over ``--bf16`` without a word."""

from functools import partial

from omegaconf import DictConfig
from torch import nn


def follow_precision(model: nn.Module) -> None:
    """Makes fairseq's decoding commands honour ``--bf16`` for this model.

    They call ``prepare_for_inference_`` with their whole configuration once the model is on its device; for a model of fairseq's own
    there is no other place between loading and decoding.
    """
    model.prepare_for_inference_ = partial(_prepare, model)


def _prepare(model: nn.Module, cfg: DictConfig) -> None:
    """What the model's class does, after the cast.

    Raises:
        ValueError: ``--amp``, which decoding cannot honour.
    """
    if cfg.common.amp:
        raise ValueError("--amp is for training; decode with --fp16 (GPU) or --bf16")
    if cfg.common.bf16:
        model.bfloat16()
    type(model).prepare_for_inference_(model, cfg)
