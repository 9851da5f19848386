"""fairseq's Transformers as files of Marian: model, vocabulary and shortlist, for its engines.

Marian computes other results with them than fairseq unless the model has Marian's conventions
(``--arch marian_transformer``): its positions begin at 0, and the decoder's first input is zeros.
Both take the same time. ``fairseq_hrt/native/conversion`` reads these files.

    python examples/measure/marian_files.py model.enpt.intgemm.alphas.bin enpt.npz

writes a model of Marian's own format (``.bin``) as a ``.npz`` with float32 weights, which
``pymarian convert`` takes.

With Marian's conventions, random weights and float32 (2 + 2 layers, width 64), pymarian 1.12.42
writes the same 100 of 100 translations as the original, with self-attention and SSRU. Where layers
normalise first, that holds for SSRU and for scores; its decoder leaves keys and values of
self-attention without it from the second word on.

Rows of Marian's matrices are words. ``</s>`` and ``<unk>`` come first, then those of the dictionary
in its order, then ``<s>`` and ``<pad>``.
"""

import argparse
import json
import re
import struct
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np
from fairseq.data import Dictionary

from fairseq_hrt.native.conversion.marian_shortlist import MARK
from fairseq_hrt.native.conversion.marian_tensors import CONFIG, read_tensors

# Logits of words that must not be written.
NEVER = -9999.0
# Activations of 8-bit products are rounded by a constant of the model, which real models measure.
# The time does not depend on it.
_ALPHA = np.float32(127 / 6)
# Names of layers: a part of fairseq's names, Marian's, and whether it is a matrix. A matrix
# is transposed.
_LAYERS: Tuple[Tuple[str, str, bool], ...] = (
    *(
        (f"{theirs}.{name}", f"{own}_{{}}{letter}", True)
        for theirs, own in (("self_attn", "self"), ("encoder_attn", "context"))
        for name, letter in (("q_proj", "q"), ("k_proj", "k"), ("v_proj", "v"), ("out_proj", "o"))
    ),
    ("encoder_attn_layer_norm", "context_Wo_ln_{}", False),
    ("final_layer_norm", "ffn_ffn_ln_{}", False),
    ("fc1", "ffn_{}1", True),
    ("fc2", "ffn_{}2", True),
    ("cell.forget", "rnn_{}f", True),
    ("cell.candidate", "rnn_{}", True),
)
_NAME = re.compile(r"(encoder|decoder)\.layers\.(\d+)\.(.+)\.(weight|bias)")
# Names of the embeddings and the output layer; the rest of a decoder is in its layers.
_SHARED = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight",
           "decoder.output_projection.weight")  # fmt: skip
_BIAS = "decoder.output_projection.bias"
# Of models that normalise before their layers.
_TOPS = {
    f"{side}.layer_norm.{name}": f"{side}_top_ln_{own}"
    for side in ("encoder", "decoder")
    for name, own in (("weight", "scale"), ("bias", "bias"))
}


def row_order(words: int) -> List[int]:
    """Ids of fairseq's dictionary in the order of Marian's rows."""
    return [2, 3, *range(4, words), 0, 1]


def marian_tensors(
    parameters: Mapping[str, np.ndarray], *, tied: bool = True, never: Sequence[int] = ()
) -> Dict[str, np.ndarray]:
    """The parameters by Marian's names.

    Args:
        parameters: of a ``transformer`` or ``marian_transformer`` that shares all embeddings, by
            fairseq's names.
        tied: the output layer is the embeddings' matrix; False: a copy of it with a name of its
            own, which more kinds of 8-bit products take.
        never: ids of words that must not be written.

    Raises:
        ValueError: the model has a parameter that cannot be represented.
    """
    embeddings = parameters[_SHARED[0]]
    for name in _SHARED:
        if not np.array_equal(parameters[name], embeddings):
            raise ValueError(f"{name} is not the embeddings' matrix: share all embeddings")
    order = row_order(len(embeddings))
    bias = parameters.get(_BIAS, np.zeros(len(embeddings), np.float32)).copy()
    bias[list(never)] = NEVER
    made = {"Wemb": embeddings[order], "decoder_ff_logit_out_b": bias[None, order]}
    if not tied:
        made["decoder_ff_logit_out_W"] = made["Wemb"].T
    recurrent = any(".cell." in name for name in parameters)
    before = set(_TOPS) & parameters.keys()
    if before and before != set(_TOPS):
        raise ValueError(f"{before.pop()}: one side alone normalises before, which Marian's do not")
    for name, value in parameters.items():
        if name not in (*_SHARED, _BIAS):
            made[_named(name, recurrent, "_pre" if before else "")] = (
                value.T if value.ndim == 2 else value[None]
            )
    return {name: np.ascontiguousarray(value, np.float32) for name, value in made.items()}


def _named(name: str, recurrent: bool, suffix: str) -> str:
    """Marian's name; ``suffix``: of normalisations."""
    if name in _TOPS:
        return _TOPS[name]
    found = _NAME.fullmatch(name)
    if found is not None:
        side, number, part, kind = found.groups()
        prefix = f"{side}_l{int(number) + 1}"
        norm, letter = {"weight": ("scale", "W"), "bias": ("bias", "b")}[kind]
        norm += suffix
        if part == "self_attn_layer_norm":
            cell = "rnn" if suffix else "rnn_ffn"
            own = cell if recurrent and side == "decoder" else "self_Wo"
            return f"{prefix}_{own}_ln_{norm}"
        for theirs, own, matrix in _LAYERS:
            if part == theirs:
                return f"{prefix}_{own.format(letter if matrix else norm)}"
    raise ValueError(f"{name} cannot be represented in Marian's files")


def model_config(model: Any, *, tied: bool = True) -> Dict[str, Any]:
    """The contents of ``special:model.yml`` for a model of fairseq.

    Raises:
        ValueError: it has layers of different sizes.
    """
    encoder, decoder = model.encoder, model.decoder
    attentions = [
        *((layer, layer.self_attn) for layer in encoder.layers),
        *((layer, layer.encoder_attn) for layer in decoder.layers),
    ]
    sizes = {(layer.fc1.out_features, attention.num_heads) for layer, attention in attentions}
    if len(sizes) > 1:
        raise ValueError("layers have different sizes, which Marian does not have")
    ((inner, heads),) = sizes
    words, width = decoder.embed_tokens.weight.shape
    recurrent, before = hasattr(decoder.layers[0], "cell"), decoder.layer_norm is not None
    return {
        "type": "transformer", "version": "v1.9.0", "dim-vocabs": [words, words],
        "dim-emb": width, "dim-rnn": width, "enc-depth": len(encoder.layers),
        "dec-depth": len(decoder.layers), "transformer-dim-ffn": inner,
        "transformer-heads": heads,
        "transformer-ffn-activation": model.cfg.activation_fn,
        "transformer-ffn-depth": 2, "transformer-decoder-ffn-depth": 0,
        "transformer-decoder-dim-ffn": 0, "transformer-preprocess": "n" if before else "",
        "transformer-postprocess": "da" if before else "dan",
        "transformer-postprocess-top": "n" if before else "",
        "transformer-postprocess-emb": "d", "transformer-train-positions": False,
        "transformer-train-position-embeddings": False, "transformer-no-projection": False,
        "transformer-pool": False, "transformer-rnn-projection": False,
        "transformer-depth-scaling": False, "transformer-tied-layers": [],
        "transformer-decoder-autoreg": "rnn" if recurrent else "self-attention",
        "dec-cell": "ssru" if recurrent else "gru", "dec-cell-base-depth": 2,
        "dec-cell-high-depth": 1, "enc-cell": "gru", "enc-cell-depth": 1,
        "enc-type": "bidirectional", "skip": False, "layer-normalization": False,
        "right-left": False, "input-types": [], "output-omit-bias": False,
        "lemma-dim-emb": 0, "factors-combine": "sum", "factors-dim-emb": 0, "ulr": False,
        "tied-embeddings": False, "tied-embeddings-all": tied, "tied-embeddings-src": not tied,
        "transformer-guided-alignment-layer": "last", "transformer-aan-activation": "swish",
        "transformer-aan-depth": 2, "transformer-aan-nogate": False, "transformer-dim-aan": 2048,
        "bert-train-type-embeddings": False, "bert-type-vocab-size": 2,
    }  # fmt: skip


def write_model(
    path: Path, model: Any, *, tied: bool = True, alphas: bool = False, never: Sequence[int] = ()
) -> None:
    """Writes a ``.npz`` of Marian.

    Args:
        path: to write.
        model: of fairseq, see :func:`marian_tensors`.
        tied, never: see there.
        alphas: with the multipliers of activations that bergamot's ``int8shiftAlphaAll`` needs.

    Raises:
        ValueError: the model cannot be represented.
    """
    parameters = {
        name: value.detach().numpy()
        for name, value in model.named_parameters(remove_duplicate=False)
    }
    made = marian_tensors(parameters, tied=tied, never=never)
    if alphas:
        multiplied = [name for name in made if re.search(r"Wemb|_W\w?$", name)]
        made.update({f"{name}_QuantMultA": np.full((1, 1), _ALPHA) for name in multiplied})
    # JSON is YAML.
    config = model_config(model, tied=tied).items()
    _write_npz(path, made, "".join(f"{name}: {json.dumps(value)}\n" for name, value in config))


def _write_npz(path: Path, tensors: Mapping[str, np.ndarray], config: str) -> None:
    held: Dict[str, Any] = {**tensors, CONFIG: np.frombuffer(config.encode() + b"\0", np.int8)}
    with open(path, "wb") as file:
        np.savez(file, **held)


def write_vocabulary(path: Path, dictionary: Dictionary) -> None:
    """Writes a SentencePiece model whose pieces are the words of a dictionary: text of such words
    with spaces between them becomes just these words."""

    # A ModelProto; kinds of pieces: 1 a word, 2 unknown, 3 control.
    def piece(text: str, kind: int) -> bytes:
        score = struct.pack("<f", -1.0 if kind == 1 else 0.0)
        return _field(1, _field(1, text.encode()) + b"\x15" + score + _field(3, kind))

    made = [piece("</s>", 3), piece("<unk>", 2)]
    made += [piece(f"▁{word}", 1) for word in dictionary.symbols[dictionary.nspecial :]]
    made += [piece("<s>", 3), piece("<pad>", 3)]
    # unk_id, bos_id, eos_id, pad_id
    ids = ((40, 1), (41, len(made) - 2), (42, 0), (43, len(made) - 1))
    trainer = b"".join(_field(*one) for one in ids)
    path.write_bytes(b"".join(made) + _field(2, trainer) + _field(3, _field(1, b"identity")))


def _number(value: int) -> bytes:
    found = b""
    while value > 127:
        found, value = found + bytes([value & 127 | 128]), value >> 7
    return found + bytes([value])


def _field(number: int, value: Any) -> bytes:
    """A field of a protocol buffer: bytes, or an integer from 0."""
    if isinstance(value, int):
        return _number(number << 3) + _number(value)
    return _number(number << 3 | 2) + _number(len(value)) + value


def write_shortlist(
    path: Path, candidates: Mapping[int, Sequence[int]], frequent: int, words: int
) -> None:
    """Writes a binary shortlist.

    Args:
        path: to write.
        candidates: ids of target words for each id of a source word, see :func:`row_order`.
        frequent: how many words count with every sentence, the first of the dictionary.
        words: of the dictionary.
    """
    order = row_order(words)
    rows = {number: row for row, number in enumerate(order)}
    found = [sorted(rows[one] for one in candidates.get(number, ())) for number in order]
    ends = np.cumsum([0, *map(len, found)]).astype("<u8")
    flat = np.array([row for own in found for row in own], "<u4")
    # A mark, a checksum that is not read, and the sizes; before the words come </s> and <unk>.
    head = struct.pack("<6Q", MARK, 0, frequent + 2, 0, len(ends), len(flat))
    path.write_bytes(head + ends.tobytes() + flat.tobytes())


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path, help="of Marian, .bin with its description")
    parser.add_argument("output", type=Path, help="the .npz to write")
    given = parser.parse_args(arguments)
    try:
        stored = read_tensors(given.model)
        _write_npz(given.output, stored.arrays, stored.config)
    except (OSError, ValueError) as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
