"""From parameters by fairseq's names to the tensors of a model file: joined, checked and rounded,
with NumPy alone."""

import re
from types import MappingProxyType
from typing import Dict, List, Mapping, Optional, Tuple

import numpy as np

from ..decoding import NumericalError
from ..families import BY_NAME
from .format import EMBEDDINGS, expected_tensors
from .header import STORED, Header

# Modules of fairseq by the parts of a model file; those with the same input are one matrix, [sum of
# their outputs, inputs].
_MODULES: Dict[str, Tuple[str, ...]] = {
    "embedding": ("embed_tokens",),
    "embedding_norm": ("layernorm_embedding",),
    "final_norm": ("layer_norm",),
    "output": ("decoder.output_projection",),
    "cell": ("cell.forget", "cell.candidate"),
    "self.input": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "self.output": ("self_attn.out_proj",),
    "self.norm": ("self_attn_layer_norm",),
    "cross.query": ("encoder_attn.q_proj",),
    "cross.memory": ("encoder_attn.k_proj", "encoder_attn.v_proj"),
    "cross.output": ("encoder_attn.out_proj",),
    "cross.norm": ("encoder_attn_layer_norm",),
    "inner": ("fc1",),
    "outer": ("fc2",),
    "final.norm": ("final_layer_norm",),
}
# A side or one of its layers, a part, and which of its parameters.
_NAME = re.compile(r"((?:encoder|decoder)\.(?:layers\.\d+\.)?)?(.+?)(?:\.(weight|bias))?")


def model_tensors(
    header: Header,
    parameters: Mapping[str, np.ndarray],
    made: Mapping[str, np.ndarray],
    steps: Mapping[str, float] = MappingProxyType({}),
) -> Dict[str, np.ndarray]:
    """The tensors of a model file, float32 or rounded to int8 as its header requires.

    Args:
        header: of the model.
        parameters: by fairseq's names.
        made: tensors of the model file that a plain Transformer has not as parameters, by their
            names in the file: tables of positions, and those of a family.
        steps: of parameters that were stored as integers of 8 bits, the value of 1. They are taken
            as they are: to round them row by row would round twice.

    Raises:
        KeyError: a parameter is missing.
        NumericalError: a parameter is not finite.
    """
    tensors: Dict[str, np.ndarray] = {}
    exact = BY_NAME[header.family].exact
    for name, (kind, _) in expected_tensors(header).items():
        array, stored = (made[name], None) if name in made else _joined(name, parameters, steps)
        array = np.ascontiguousarray(array, np.float32)
        if not np.isfinite(array).all():
            raise NumericalError(
                f"the model's {name} holds a number that is not finite, NaN or infinity (a diverged"
                " or truncated training?); take an earlier checkpoint, or --engine torch where it"
                " is meant"
            )
        if header.weights == "int8" and kind == "matrix" and name not in exact:
            tensors[name], tensors[f"{name}.scale"] = quantise_rows(array, stored)
            if name in EMBEDDINGS:
                # Read a row at a time, so that finer values cost no time; what rounding does to
                # them goes through the whole model.
                tensors[f"{name}.rest"] = rest_of_rows(
                    array, tensors[name], tensors[f"{name}.scale"]
                )
        else:
            tensors[name] = array
    return tensors


def require_stored(weights: str) -> None:
    """Refuses a kind of weights that there is not.

    Raises:
        ValueError: naming it.
    """
    if weights not in STORED:
        raise ValueError(f"weights {weights!r}: choose one of {', '.join(STORED)}")


def _joined(
    name: str, parameters: Mapping[str, np.ndarray], steps: Mapping[str, float]
) -> Tuple[np.ndarray, Optional[np.ndarray]]:
    """A tensor of the model file from the parameters that it consists of, and the step of each row
    ``[N]``, 0 where it was not stored as integers; no steps for a bias."""
    found = _NAME.fullmatch(name)
    assert found is not None
    place, part, kind = found.groups("")
    modules = [f"{place}{module}" for module in _MODULES[part]]
    weights = [parameters[f"{module}.weight"] for module in modules]
    if kind != "bias":
        rows = [
            np.full(len(weight), steps.get(f"{module}.weight", 0), np.float32)
            for module, weight in zip(modules, weights)
        ]
        return weights[0] if len(weights) == 1 else np.concatenate(weights), np.concatenate(rows)
    biases: List[np.ndarray] = [
        parameters.get(f"{module}.bias", np.zeros(len(weight), np.float32))
        for module, weight in zip(modules, weights)
    ]
    return np.concatenate(biases), None


def quantise_rows(
    weights: np.ndarray, steps: Optional[np.ndarray] = None
) -> Tuple[np.ndarray, np.ndarray]:
    """``[N, K]`` → int8 ``[N, K]`` and float32 ``[N]``: row n is about
    ``scale[n] * integers[n]``.

    Args:
        steps: ``[N]``, above 0 where a row consists of multiples of that number.
    """
    scale = (np.abs(weights).max(1) / np.float32(127)).astype(np.float32)
    if steps is not None:
        # An integer beyond 127 could not be kept.
        kept = (steps > 0) & (scale <= steps * np.float32(1.001))
        scale = np.where(kept, steps, scale)
    # A row of zeros, or of numbers too small for a scale.
    divisor = np.where(scale > 1e-36, scale, np.float32(1))
    integers = np.clip(np.rint(weights / divisor[:, None]), -127, 127).astype(np.int8)
    return integers, np.where(scale > 1e-36, scale, np.float32(0)).astype(np.float32)


def rest_of_rows(weights: np.ndarray, integers: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """What :func:`quantise_rows` left, in 254ths of the scale: int8 ``[N, K]``."""
    divisor = np.where(scale > 0, scale, np.float32(1)).astype(np.float64)
    left = weights / divisor[:, None] - integers
    return np.where(scale[:, None] > 0, np.clip(np.rint(254 * left), -127, 127), 0).astype(np.int8)
