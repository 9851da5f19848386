"""The options of a model that change what it computes without changing names or shapes of its
parameters: with other values of them a checkpoint loads without an error and computes something
else."""

import re
from dataclasses import fields
from typing import Any, Dict

from fairseq.models import ARCH_MODEL_NAME_REGISTRY, ARCH_MODEL_REGISTRY, MODEL_REGISTRY
from fairseq.models.transformer.transformer_base import TransformerModelBase
from fairseq.models.transformer.transformer_config import TransformerConfig

from ..native.families import FAMILIES
from .checkpoints import architecture_name

_COMPUTATION = re.compile(
    "|".join(
        [
            r"activation_fn|no_scale_embedding|share_\w+|cross_self_attention",
            *(f"{family.name}_(?:{family.computation})" for family in FAMILIES),
        ]
    )
)


def computation(config: Any) -> Dict[str, Any]:
    """The options in a checkpoint's ``cfg.model`` that change what the model computes, by name,
    with defaults filled in. A preset (``transformer_iwslt_de_en``) counts as its architecture
    (``transformer``)."""
    name = architecture_name(config)
    model = ARCH_MODEL_REGISTRY.get(name, MODEL_REGISTRY.get(name))
    found = {"arch": ARCH_MODEL_NAME_REGISTRY.get(name, name)}
    if isinstance(model, type) and issubclass(model, TransformerModelBase):
        kind = getattr(model, "config", TransformerConfig)
        # Mask-Predict's class has this package's own options only.
        whole = kind if issubclass(kind, TransformerConfig) else TransformerConfig
        options = whole.from_namespace(config)
        for side in ("encoder", "decoder"):
            own = getattr(options, side)
            found.update(
                {
                    f"{side}_{option}": getattr(own, option)
                    for option in ("attention_heads", "normalize_before")
                }
            )
        names = (field.name for field in fields(options))
        found.update(
            {option: getattr(options, option) for option in names if _COMPUTATION.fullmatch(option)}
        )
    return found
