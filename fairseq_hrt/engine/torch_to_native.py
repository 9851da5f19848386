"""Converts a loaded model to one of the native engine (:mod:`..native.runtime.format`)."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Dict, Tuple

import numpy as np
import torch
from fairseq.data import Dictionary
from fairseq.models.transformer import TransformerEncoderBase
from fairseq.modules import LearnedPositionalEmbedding
from torch import Tensor, nn

from ..native.families import BY_NAME, MODEL_FAMILIES
from ..native.families.fields import ACTIVATIONS
from ..native.runtime.format import Header, write_model
from ..native.runtime.model_tensors import model_tensors, require_stored
from .embedding import position_vectors
from .layers import FairseqModule, UnsupportedModelError, all_layers
from .native_parts import NativeParts
from .transformer import TransformerEngine


def write_runtime_model(
    model: FairseqModule,
    source: Dictionary,
    target: Dictionary,
    path: Path,
    *,
    weights: str = "int8",
) -> Header:
    """Converts a model, writes its file, which appears only when complete, and returns its header.

    Args:
        model: fairseq's ``transformer``, or the model of a family whose decoder has
            :class:`.native_parts.NativeParts`, loaded for decoding.
        source, target: the model's dictionaries.
        path: the file to be written.
        weights: ``int8`` or ``float32``.

    Raises:
        UnsupportedModelError: the native engine lacks a part of the model; the message names it.
        ValueError: an unknown kind of weights.
    """
    header, tensors = convert(model, source, target, weights=weights)
    write_model(path, header, tensors)
    return header


@torch.no_grad()
def convert(
    model: FairseqModule, source: Dictionary, target: Dictionary, *, weights: str = "int8"
) -> Tuple[Header, Dict[str, np.ndarray]]:
    """The header and the tensors, {name: array}, of a model's file; arguments as for
    :func:`write_runtime_model`.

    Raises:
        NumericalError: a parameter is not finite.
        UnsupportedModelError, ValueError: as of :func:`write_runtime_model`.
    """
    require_stored(weights)
    family = check_convertible(model, source, target)
    header = header_of(model, source, target, family, weights)
    parameters = {
        name: _array(value) for name, value in model.named_parameters(remove_duplicate=False)
    }
    return header, model_tensors(
        header, parameters, {name: _array(value) for name, value in _made(model, header).items()}
    )


def _array(value: Tensor) -> np.ndarray:
    """The tensor as a float32 array, which shares the tensor's memory if possible."""
    found: np.ndarray = value.detach().float().cpu().numpy()
    return found


def check_convertible(model: FairseqModule, source: Dictionary, target: Dictionary) -> str:
    """Returns the family of a model; refuses models that the native engine cannot decode.

    Raises:
        UnsupportedModelError: the message gives the reason.
    """
    engine = TransformerEngine(model)
    encoder, decoder = model.encoder, model.decoder
    if not engine.encoder_layers or not isinstance(encoder, TransformerEncoderBase):
        raise UnsupportedModelError(
            f"the native engine does not support the encoder {type(encoder).__name__}; use --engine"
            " torch"
        )
    sides = [all_layers(side) for side in (encoder, decoder)]
    modules = [*encoder.modules(), *decoder.modules()]
    norms = [module for module in modules if isinstance(module, nn.LayerNorm)]
    activation = str(model.cfg.activation_fn) if hasattr(model, "cfg") else ""
    reasons = {
        "a --decoder-input-dim or --decoder-output-dim of its own": (
            decoder.project_in_dim is not None or decoder.project_out_dim is not None
        ),
        f"--activation-fn {activation}": activation not in ACTIVATIONS,
        "layers of different sizes": any(
            len({(_heads(layer), tuple(layer.fc1.weight.shape)) for layer in side}) > 1
            for side in sides
        ),
        "layer normalisations of different epsilons": len({norm.eps for norm in norms}) > 1,
        **dict.fromkeys(_parts(decoder).not_native(), True),
        "a quantised or pruned layer": any(
            not isinstance(getattr(layer, name), nn.Linear)
            for side in sides
            for layer in side
            for name in ("fc1", "fc2")
        ),
    }
    for option, given in reasons.items():
        if given:
            raise UnsupportedModelError(
                f"the model has {option}, which the native engine does not support; use --engine"
                " torch"
            )
    for name in ("bos", "pad", "eos", "unk"):
        one, other = getattr(source, name)(), getattr(target, name)()
        if one != other:
            raise UnsupportedModelError(
                f"the symbol {name} has id {one} in the source and {other} in the target"
                " dictionary; use --engine torch"
            )
    return _family(decoder)


def _parts(decoder: FairseqModule) -> NativeParts:
    """The decoder itself if it is a :class:`NativeParts`, else one that adds nothing."""
    return decoder if isinstance(decoder, NativeParts) else NativeParts()


def _family(decoder: FairseqModule) -> str:
    """The family that a decoder names; fairseq's own decoders are autoregressive. Raises
    UnsupportedModelError for all others."""
    if isinstance(decoder, NativeParts) and decoder.family in MODEL_FAMILIES:
        return decoder.family
    owner = next(cls for cls in type(decoder).__mro__ if "extract_features_scriptable" in vars(cls))
    if not owner.__module__.startswith("fairseq.models.transformer.") or not type(
        decoder
    ).__module__.startswith("fairseq.models.transformer"):
        raise UnsupportedModelError(
            f"the native engine does not support the decoder {type(decoder).__name__}; use --engine"
            " torch"
        )
    return NativeParts.family


def _heads(layer: FairseqModule) -> int:
    """The number of attention heads of a layer: of its self-attention or, in a recurrent layer, of
    its attention to the source."""
    attention = layer.encoder_attn if hasattr(layer, "cell") else layer.self_attn
    return int(attention.num_heads)


def _same(one: Tensor, other: Tensor) -> bool:
    """Whether two parameters share memory or are equal."""
    return one.shape == other.shape and (
        one.data_ptr() == other.data_ptr() or torch.equal(one, other)
    )


def header_of(
    model: FairseqModule, source: Dictionary, target: Dictionary, family: str, weights: str
) -> Header:
    """The checked header of the file of a model of this ``family``, whose ``weights`` are stored as
    ``int8`` or ``float32``; other arguments as for :func:`write_runtime_model`."""
    encoder, decoder = model.encoder, model.decoder
    values: Dict[str, Any] = dict(
        family=family, weights=weights, source_vocabulary=len(source),
        target_vocabulary=len(target), bos=target.bos(), pad=target.pad(), eos=target.eos(),
        unk=target.unk(), activation=str(model.cfg.activation_fn),
        longest_source=min(encoder.max_positions(), 1 << 16),
        longest_target=min(model.max_decoder_positions(), 1 << 16),
        shared_embedding=_same(encoder.embed_tokens.weight, decoder.embed_tokens.weight),
        tied_output=_same(decoder.output_projection.weight, decoder.embed_tokens.weight),
        output_bias=decoder.output_projection.bias is not None,
        epsilon=decoder.layers[0].final_layer_norm.eps,
    )  # fmt: skip
    for side, module in (("encoder", encoder), ("decoder", decoder)):
        values.update({
            f"{side}_width": module.embed_tokens.embedding_dim,
            f"{side}_layers": len(module.layers),
            f"{side}_heads": _heads(module.layers[0]) if len(module.layers) else 1,
            f"{side}_inner": module.layers[0].fc1.weight.size(0) if len(module.layers) else 1,
            f"{side}_pre_norm": len(module.layers) > 0 and bool(module.layers[0].normalize_before),
            f"{side}_final_norm": module.layer_norm is not None,
            f"{side}_embedding_norm": module.layernorm_embedding is not None,
            f"{side}_scale": float(module.embed_scale),
        })  # fmt: skip
    values.update(_parts(decoder).native_fields(values["longest_target"]))
    values["encoder_positions"] = 0 if encoder.embed_positions is None else values["longest_source"]
    header = Header(**values, decoder_positions=0)
    if decoder.embed_positions is not None:
        learned = isinstance(decoder.embed_positions, LearnedPositionalEmbedding)
        spare = 0 if learned else BY_NAME[family].spare_positions(header)
        header = replace(header, decoder_positions=header.longest_target + spare)
    header.check()
    return header


def _made(model: FairseqModule, header: Header) -> Dict[str, Tensor]:
    """The tensors of the model file, by name, that are not parameters of a plain Transformer:
    position vectors and the family's own tensors."""
    found: Dict[str, Tensor] = {}
    for side, module, count in (
        ("encoder", model.encoder, header.encoder_positions),
        ("decoder", model.decoder, header.decoder_positions),
    ):
        if count:
            vectors = position_vectors(module.embed_positions, count, module.padding_idx)
            found[f"{side}.positions"] = vectors[:count]  # [count, D]
    return {**found, **_parts(model.decoder).native_tensors(header)}
