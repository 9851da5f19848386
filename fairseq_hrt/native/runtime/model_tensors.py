"""Makes the tensors of the native engine's model file from a model's parameters: joins, checks and
rounds them, with NumPy alone."""

import re
from types import MappingProxyType
from typing import Dict, List, Mapping, Optional, Tuple

import numpy as np

from ..decoding import NumericalError
from ..families.fields import STORED
from .format import EMBEDDINGS, expected_tensors
from .header import Header

# {part of a model file: fairseq's modules}; several modules, of the same input, are joined to one
# matrix [sum of their outputs, inputs].
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
# Groups: a side, or one of its layers; the part; weight or bias.
_NAME = re.compile(r"((?:encoder|decoder)\.(?:layers\.\d+\.)?)?(.+?)(?:\.(weight|bias))?")


def model_tensors(
    header: Header,
    parameters: Mapping[str, np.ndarray],
    made: Mapping[str, np.ndarray],
    steps: Mapping[str, float] = MappingProxyType({}),
) -> Dict[str, np.ndarray]:
    """Makes the tensors of a model file, {name: array}, float32 or rounded to int8 as the header
    requires.

    Args:
        header: the model's header.
        parameters: the model's parameters by fairseq's names.
        made: tensors of the file that are not parameters of a plain Transformer, by their names in
            the file: position tables, and the additional tensors of the model's family.
        steps: {name: scale} of parameters that were stored as 8-bit integers: their values are
            scale * integer. These integers are kept, since rounding the values anew, with a scale
            per row, would round twice.

    Raises:
        KeyError: a parameter is missing.
        NumericalError: a parameter is not finite.
    """
    tensors: Dict[str, np.ndarray] = {}
    exact = header.record.exact
    for name, (kind, _) in expected_tensors(header).items():
        array, stored = (made[name], None) if name in made else _joined(name, parameters, steps)
        array = np.ascontiguousarray(array, np.float32)
        if not np.isfinite(array).all():
            raise NumericalError(
                f"the model's {name} holds a number that is not finite, NaN or infinity (a diverged"
                " or truncated training?); use an earlier checkpoint, or --engine torch if this is"
                " intended"
            )
        if header.weights == "int8" and kind == "matrix" and name not in exact:
            tensors[name], tensors[f"{name}.scale"] = quantise_rows(array, stored)
            if name in EMBEDDINGS:
                # Only single rows of embeddings are read, so finer values cost no time, while their
                # rounding errors go through the whole model.
                tensors[f"{name}.rest"] = rest_of_rows(
                    array, tensors[name], tensors[f"{name}.scale"]
                )
        else:
            tensors[name] = array
    return tensors


def require_stored(weights: str) -> None:
    """Raises ValueError unless ``weights`` is ``int8`` or ``float32``."""
    if weights not in STORED:
        raise ValueError(f"weights {weights!r}: choose one of {', '.join(STORED)}")


def _joined(
    name: str, parameters: Mapping[str, np.ndarray], steps: Mapping[str, float]
) -> Tuple[np.ndarray, Optional[np.ndarray]]:
    """Returns (the tensor ``name`` of the model file, the scales of its rows). The tensor joins the
    parameters that make it up, e.g. the weights of queries, keys and values. The scales ``[N]`` are
    the quantisation steps in ``steps`` (see :func:`model_tensors`), 0 for rows that were not stored
    as integers; for a bias they are None."""
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
    """Rounds a matrix of N rows and K columns to int8 ``[N, K]`` and float32 scales ``[N]``: row n
    is about ``scale[n] * integers[n]``.

    Args:
        weights: float32 ``[N, K]``.
        steps: known scales ``[N]``, or None. If ``steps[n]`` is above 0, row n consists of integer
            multiples of it, and it becomes the row's scale unless an integer exceeds 127; if 0,
            the row's scale is computed.
    """
    scale = (np.abs(weights).max(1) / np.float32(127)).astype(np.float32)
    if steps is not None:
        # Steps are kept only if no integer exceeds 127.
        kept = (steps > 0) & (scale <= steps * np.float32(1.001))
        scale = np.where(kept, steps, scale)
    # Rows of zeros, or of numbers too small for a scale, get the scale 0.
    divisor = np.where(scale > 1e-36, scale, np.float32(1))
    integers = np.clip(np.rint(weights / divisor[:, None]), -127, 127).astype(np.int8)
    return integers, np.where(scale > 1e-36, scale, np.float32(0)).astype(np.float32)


def rest_of_rows(weights: np.ndarray, integers: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """The rounding errors of :func:`quantise_rows`, int8 ``[N, K]``, in units of scale / 254.

    Args:
        weights: the matrix that was rounded.
        integers, scale: the results of :func:`quantise_rows` for this matrix.
    """
    divisor = np.where(scale > 0, scale, np.float32(1)).astype(np.float64)
    left = weights / divisor[:, None] - integers
    return np.where(scale[:, None] > 0, np.clip(np.rint(254 * left), -127, 127), 0).astype(np.int8)
