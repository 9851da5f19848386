"""From a loaded model to a model of the native engine (:mod:`..native.runtime.format`)."""

from pathlib import Path
from typing import Any, Dict, Tuple

import numpy as np
import torch
from fairseq.data import Dictionary
from fairseq.models.transformer import TransformerEncoderBase
from fairseq.modules import LearnedPositionalEmbedding, SinusoidalPositionalEmbedding
from torch import Tensor, nn

from ..native.families import MODEL_FAMILIES
from ..native.runtime.format import ACTIVATIONS, Header, write_model
from ..native.runtime.model_tensors import model_tensors, require_stored
from .layers import FairseqModule, UnsupportedModelError
from .transformer import TransformerEngine


def write_runtime_model(
    model: FairseqModule,
    source: Dictionary,
    target: Dictionary,
    path: Path,
    *,
    weights: str = "int8",
) -> Header:
    """Converts a model; the file appears when it is complete.

    Args:
        model: a ``transformer``, ``marian_transformer``, ``hrt_transformer``,
            ``bidirectional_transformer`` or ``dag_transformer``, loaded for decoding.
        source, target: its dictionaries.
        path: of the file.
        weights: ``int8`` or ``float32``.

    Raises:
        UnsupportedModelError: the model has a part that the native engine does not have, by name.
        ValueError: an unknown kind of weights.
    """
    header, tensors = convert(model, source, target, weights=weights)
    write_model(path, header, tensors)
    return header


@torch.no_grad()
def convert(
    model: FairseqModule, source: Dictionary, target: Dictionary, *, weights: str = "int8"
) -> Tuple[Header, Dict[str, np.ndarray]]:
    """The header and the tensors of a model; see :func:`write_runtime_model`.

    Raises:
        NumericalError: a parameter is not finite, besides what is raised there.
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
    """A float32 array, of the same memory where that is possible."""
    found: np.ndarray = value.detach().float().cpu().numpy()
    return found


def check_convertible(model: FairseqModule, source: Dictionary, target: Dictionary) -> str:
    """The family of a model that the native engine can decode.

    Raises:
        UnsupportedModelError: with the reason.
    """
    try:
        engine = TransformerEngine(model)
    except UnsupportedModelError as error:
        raise UnsupportedModelError(
            f"the native engine cannot decode this model either: {error}"
        ) from None
    encoder, decoder = model.encoder, model.decoder
    if not engine.encoder_layers or not isinstance(encoder, TransformerEncoderBase):
        raise UnsupportedModelError(
            f"the native engine does not have the encoder {type(encoder).__name__}; use --engine"
            " torch"
        )
    layers = [*encoder.layers, *decoder.layers]
    modules = [*encoder.modules(), *decoder.modules()]
    norms = [module for module in modules if isinstance(module, nn.LayerNorm)]
    activation = str(model.cfg.activation_fn) if hasattr(model, "cfg") else ""
    reasons = {
        "a --decoder-input-dim or --decoder-output-dim of its own": (
            decoder.project_in_dim is not None or decoder.project_out_dim is not None
        ),
        f"--activation-fn {activation}": activation not in ACTIVATIONS,
        "layers of different sizes": any(
            len({(_heads(layer), tuple(layer.fc1.weight.shape)) for layer in side.layers}) > 1
            for side in (encoder, decoder)
        ),
        "layer normalisations of different epsilons": len({norm.eps for norm in norms}) > 1,
        "--bidirectional-distinct-starts without positions": (
            decoder.embed_positions is None and getattr(decoder, "opposite_start", None) is not None
        ),
        "a quantised or pruned layer": any(
            not isinstance(getattr(layer, name), nn.Linear)
            for layer in layers
            for name in ("fc1", "fc2")
        ),
    }
    for option, given in reasons.items():
        if given:
            raise UnsupportedModelError(
                f"the model has {option}, which the native engine does not have; use --engine torch"
            )
    for name in ("bos", "pad", "eos", "unk"):
        one, other = getattr(source, name)(), getattr(target, name)()
        if one != other:
            raise UnsupportedModelError(
                f"the symbol {name} has id {one} in the source and {other} in the target"
                " dictionary; use --engine torch"
            )
    return _family(decoder)


def _family(decoder: FairseqModule) -> str:
    """The family that a decoder names; those of fairseq are autoregressive."""
    named = getattr(decoder, "family", None)
    if named in MODEL_FAMILIES:
        return named
    owner = next(cls for cls in type(decoder).__mro__ if "extract_features_scriptable" in vars(cls))
    if not owner.__module__.startswith("fairseq.models.transformer.") or not type(
        decoder
    ).__module__.startswith("fairseq.models.transformer"):
        raise UnsupportedModelError(
            f"the native engine does not have the decoder {type(decoder).__name__}; use --engine"
            " torch"
        )
    return "autoregressive"


def _heads(layer: FairseqModule) -> int:
    """Attention heads of a layer; a recurrent one attends to the source alone."""
    attention = getattr(layer, "self_attn", None) or layer.encoder_attn
    return int(attention.num_heads)


def _same(one: Tensor, other: Tensor) -> bool:
    """Whether two parameters are one."""
    return one.shape == other.shape and (
        one.data_ptr() == other.data_ptr() or torch.equal(one, other)
    )


def header_of(
    model: FairseqModule, source: Dictionary, target: Dictionary, family: str, weights: str
) -> Header:
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
        epsilon=decoder.layers[0].final_layer_norm.eps, cell=getattr(decoder, "cell", "attention"),
        zero_start=bool(getattr(decoder, "zero_start", False)),
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
    ahead = 1
    if family == "hrt":
        ahead = 1 + max(decoder.chunk_sizes)
        values.update(
            special_symbols=1 + len(decoder.chunk_sizes), chunk_sizes=tuple(decoder.chunk_sizes),
            relative_window=decoder.relative_window, learn_tail=bool(decoder.learn_tail),
        )  # fmt: skip
    if family == "bidirectional":
        ahead = 1 + decoder.block
        values.update(
            {
                name: getattr(decoder, name)
                for name in ("directions", "block", "causal", "independent", "middle_to_side")
            }
        )
    if family == "dag":
        links, head = decoder.links, decoder.length_head
        values.update(
            link_heads=links.heads,
            link_rows=1 if links.features == ["feature"] else values["longest_target"],
            reach=links.reach or 0, scale=float(decoder.scale.middle),
            count_bos=bool(decoder.count_bos), length_classes=0 if head is None else head.classes,
        )  # fmt: skip
    learned = isinstance(decoder.embed_positions, LearnedPositionalEmbedding)
    values["encoder_positions"] = 0 if encoder.embed_positions is None else values["longest_source"]
    values["decoder_positions"] = (
        0
        if decoder.embed_positions is None
        else values["longest_target"] + (0 if learned else ahead)
    )
    header = Header(**values)
    header.check()
    return header


def _made(model: FairseqModule, header: Header) -> Dict[str, Tensor]:
    """Tensors of the model file that are no parameters: tables of positions, and the links of a
    graph."""
    found: Dict[str, Tensor] = {}
    if header.encoder_positions:
        found["encoder.positions"] = _position_table(model.encoder, header.encoder_positions)
    if header.decoder_positions:
        found["decoder.positions"] = _position_table(model.decoder, header.decoder_positions)
    if header.family == "dag":
        found["links"], found["links.table"] = packed_links(
            model.decoder.links, header.decoder_width, header.link_rows
        )
    return found


def _position_table(module: FairseqModule, count: int) -> Tensor:
    """Vectors of positions 0 to ``count`` - 1."""
    positions = module.embed_positions
    if hasattr(positions, "slot_table"):
        vectors: Tensor = (
            module.slot_vectors(count)
            if hasattr(module, "slot_vectors")
            else positions.slot_table(count)
        )
        return vectors
    offset = module.padding_idx + 1
    if isinstance(positions, LearnedPositionalEmbedding):
        return positions.weight[offset : offset + count]
    return SinusoidalPositionalEmbedding.get_embedding(
        offset + count, positions.embedding_dim, positions.padding_idx
    )[offset:]


def packed_links(predictor: FairseqModule, width: int, rows: int) -> Tuple[Tensor, Tensor]:
    """Queries, keys and gates of a graph's links as one product with the decoder's features.

    Args:
        predictor: :class:`~..dag.links.LinkPredictor`.
        width: D of the features.
        rows: of the table.

    Returns:
        (matrix ``[2 D + H, D]``; what positions and biases add, ``[rows, 2 D + H]``, one row where
        there are no positions).
    """
    layers = (predictor.query, predictor.key, predictor.gate)
    # [2 D + H, D * parts]
    weight = torch.cat([layer.weight for layer in layers])
    table = torch.cat([layer.bias for layer in layers]).unsqueeze(0)
    own = weight.new_zeros(len(weight), width)
    for name, part in zip(predictor.features, weight.split(width, 1)):
        if name == "feature":
            own = part.contiguous()
        else:
            vectors = (
                predictor.position.weight if name == "position" else predictor.sinusoids.to(part)
            )
            table = table + vectors[:rows] @ part.t()
    return own, table
