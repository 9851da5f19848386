"""Converts an imported model to one of the native engine, with NumPy alone. The result is the same
as that of the conversion with PyTorch, ``engine/torch_to_native.py``."""

import math
from typing import Any, Dict, Mapping, Tuple

import numpy as np

from ..runtime.format import Header
from ..runtime.model_tensors import model_tensors, require_stored
from ..runtime.sinusoids import fairseq_frequencies, sinusoids
from ..text.dictionary import BOS, EOS, PAD, UNK

_SIDES = ("encoder", "decoder")
# Position 0 is row 2 of fairseq's position tables, and has the sinusoid of 2.
_OFFSET = 2


Options = Mapping[str, Any]
Parameters = Mapping[str, np.ndarray]


def native_model(
    options: Options, parameters: Parameters, steps: Mapping[str, float], *, weights: str
) -> Tuple[Header, Dict[str, np.ndarray]]:
    """Makes the header and tensors of the native engine's model, for
    :func:`~..runtime.format.write_model`.

    Args:
        options: options of ``fairseq-train`` that describe a ``transformer`` or
            ``marian_transformer``, see :class:`.converted.ConvertedModel`.
        parameters: {fairseq's name: float32 array}.
        steps: {name: quantisation step}, for parameters that were stored as 8-bit integers.
        weights: the type in which matrices are stored, ``int8`` or ``float32``.

    Raises:
        ValueError: ``weights`` is unknown, or the native engine does not support the model.
    """
    require_stored(weights)
    made = {f"{side}.positions": _positions(options, parameters, side) for side in _SIDES}
    header = _header(
        options,
        parameters,
        weights,
        # Weights that were stored in 8 bits lose nothing here, so inputs of products get 16 bits.
        16 if steps and weights == "int8" else 8,
        {name.replace(".", "_"): len(table) for name, table in made.items()},
    )
    return header, model_tensors(header, parameters, made, steps)


def _header(
    options: Options,
    parameters: Parameters,
    weights: str,
    input_bits: int,
    positions: Dict[str, int],
) -> Header:
    embeddings = {side: parameters[f"{side}.embed_tokens.weight"] for side in _SIDES}
    values: Dict[str, Any] = dict(
        family="autoregressive", weights=weights, input_bits=input_bits,
        bos=BOS, pad=PAD, eos=EOS, unk=UNK,
        source_vocabulary=len(embeddings["encoder"]), target_vocabulary=len(embeddings["decoder"]),
        activation=options["activation_fn"], longest_source=options["max_source_positions"],
        longest_target=options["max_target_positions"],
        shared_embedding=np.array_equal(embeddings["encoder"], embeddings["decoder"]),
        tied_output=np.array_equal(
            parameters["decoder.output_projection.weight"], embeddings["decoder"]),
        output_bias="decoder.output_projection.bias" in parameters,
        epsilon=options.get("marian_epsilon", Header.epsilon),
        cell=options.get("marian_cell", Header.cell),
        zero_start=options.get("marian_zero_start") == "yes", **positions,
    )  # fmt: skip
    for side in _SIDES:
        width, before = options[f"{side}_embed_dim"], options.get(f"{side}_normalize_before", False)
        values.update({
            f"{side}_width": width, f"{side}_layers": options[f"{side}_layers"],
            f"{side}_heads": options[f"{side}_attention_heads"],
            f"{side}_inner": options[f"{side}_ffn_embed_dim"], f"{side}_pre_norm": before,
            f"{side}_final_norm": before,
            f"{side}_embedding_norm": options.get("layernorm_embedding", False),
            f"{side}_scale": 1.0 if options.get("no_scale_embedding", False) else math.sqrt(width),
        })  # fmt: skip
    header = Header(**values)
    header.check()
    return header


def _positions(options: Options, parameters: Parameters, side: str) -> np.ndarray:
    """The position vectors of the encoder or decoder (``side``), ``[positions, D]``; there are as
    many as in fairseq's module."""
    count = options[f"max_{'source' if side == 'encoder' else 'target'}_positions"]
    if options.get(f"{side}_learned_pos", False):
        return parameters[f"{side}.embed_positions.weight"][_OFFSET:]
    # The decoder has one more position, for the token after the longest translation.
    first = options.get("marian_first_position", _OFFSET)
    return sinusoids(
        np.arange(first, first + count + (side == "decoder")),
        fairseq_frequencies(options[f"{side}_embed_dim"]),
    )
