"""Converts Marian's Transformers to ``marian_transformer``: the options in ``special:model.yml``,
and the tensors.

Names and formulas are those of src/models/transformer.h in marian-dev. Options that have an effect
and cannot be represented are refused by name.
"""

from typing import Any, Dict, Tuple

import numpy as np

from ..io.escaping import shown
from .converted import NEVER, ConvertedModel
from .plain_files import Settings
from .tensors import Tensors
from .vocabularies import Vocabulary

# Positions of a converted model; Marian computes them and has no limit.
MOST_POSITIONS = 1024
_ATTENTION = (
    ("Wq", "bq", "q_proj"),
    ("Wk", "bk", "k_proj"),
    ("Wv", "bv", "v_proj"),
    ("Wo", "bo", "out_proj"),
)


def rows_of(tensors: Tensors, config: Settings) -> Tuple[int, int]:
    """The numbers of (source, target) words, which are the numbers of rows of the embeddings;
    ValueError if an embedding is missing."""
    shared = _shares_embeddings(config)
    return tuple(
        tensors.shape("Wemb" if shared else f"{side}_Wemb")[0] for side in ("encoder", "decoder")
    )  # type: ignore[return-value]  # two sides


def _shares_embeddings(config: Settings) -> bool:
    return config.switch("tied-embeddings-all") or config.switch("tied-embeddings-src")


def convert_model(
    tensors: Tensors, config: Settings, source: Vocabulary, target: Vocabulary
) -> ConvertedModel:
    """Converts a Transformer of Marian to the architecture ``marian_transformer``.

    Args:
        tensors: the tensors of :func:`.marian_tensors.read_tensors`.
        config: the contents of ``special:model.yml``.
        source, target: vocabularies with as many words as the embeddings have rows.

    Raises:
        ValueError: the model has an option or tensor that ``marian_transformer`` lacks, or its
            tensors do not match ``config``.
    """
    return _Conversion(tensors, config, source, target).whole()


class _Conversion:
    def __init__(
        self, tensors: Tensors, config: Settings, source: Vocabulary, target: Vocabulary
    ) -> None:
        self.tensors, self.config, self.source, self.target = tensors, config, source, target
        _require_known(config)
        self.width = config.number("dim-emb")
        self.inner = config.number("transformer-dim-ffn")
        self.heads = config.number("transformer-heads")
        self.depths = config.number("enc-depth", most=1000), config.number("dec-depth", most=1000)
        if self.width % (2 * self.heads):
            raise ValueError(
                f"{config.subject} has dim-emb: {self.width} and transformer-heads: {self.heads};"
                " the first must be a multiple of twice the second"
            )
        autoregressive = config.require(
            "transformer-decoder-autoreg", ("self-attention", "rnn"), "self-attention"
        )
        if autoregressive == "rnn":
            config.require("dec-cell", ("ssru",), "gru")
            config.require("layer-normalization", ("false",), "false")
        self.recurrent = autoregressive == "rnn"
        self.before, self.normalized_embedding = _normalisations(config)
        self.made: Dict[str, np.ndarray] = {}
        self.steps: Dict[str, float] = {}

    def whole(self) -> ConvertedModel:
        options = self._embeddings()
        for side, depth in zip(("encoder", "decoder"), self.depths):
            for number in range(depth):
                self._layer(side, number)
            if self.normalized_embedding:
                self._norm(f"{side}.layernorm_embedding", f"{side}_emb", "_pre")
            if self.before:
                self._norm(f"{side}.layer_norm", f"{side}_top", "")
            options.update(
                {
                    f"{side}_embed_dim": self.width,
                    f"{side}_ffn_embed_dim": self.inner,
                    f"{side}_layers": depth,
                    f"{side}_attention_heads": self.heads,
                    f"{side}_normalize_before": self.before,
                }
            )
        self.tensors.require_all_used()
        return ConvertedModel("marian_transformer", options, self.made, self.steps)

    def _embeddings(self) -> Dict[str, Any]:
        width, config = self.width, self.config
        everything = config.switch("tied-embeddings-all")
        tied = everything or config.switch("tied-embeddings")
        shared = _shares_embeddings(config)
        names = {side: "Wemb" if shared else f"{side}_Wemb" for side in ("encoder", "decoder")}
        for side, words in (("encoder", self.source), ("decoder", self.target)):
            matrix = self._take(f"{side}.embed_tokens", names[side], words.size, width)
            self.made[f"{side}.embed_tokens.weight"] = words.reordered(matrix)
        if tied:
            output = self.made["decoder.embed_tokens.weight"]
            if "decoder.embed_tokens.weight" in self.steps:
                self.steps["decoder.output_projection.weight"] = self.steps[
                    "decoder.embed_tokens.weight"
                ]
        elif "decoder_ff_logit_out_Wt" in self.tensors:
            name = "decoder_ff_logit_out_Wt"
            output = self.target.reordered(
                self._take("decoder.output_projection", name, self.target.size, width)
            )
        else:
            name = "decoder_ff_logit_out_W"
            output = self.target.reordered(
                self._take("decoder.output_projection", name, width, self.target.size).T
            )
        self.made["decoder.output_projection.weight"] = output
        bias = np.zeros(self.target.size, np.float32)
        if not config.switch("output-omit-bias"):
            bias = self.tensors.take("decoder_ff_logit_out_b", 1, self.target.size)[0]
        # Also if the model has no bias: words that only fairseq's dictionary has must not be
        # chosen.
        self.made["decoder.output_projection.bias"] = self.target.reordered(bias, NEVER)
        # fairseq shares embeddings only between equal dictionaries.
        same = everything and self.source == self.target
        return {
            "share_all_embeddings": same,
            "share_decoder_input_output_embed": tied and not same,
            "activation_fn": config.text("transformer-ffn-activation", "swish"),
            "marian_epsilon": 1e-6,
            "marian_first_position": 0,
            "marian_output_bias": "yes",
            "marian_zero_start": "yes",
            "marian_cell": "ssru" if self.recurrent else "attention",
            "layernorm_embedding": self.normalized_embedding,
            "max_source_positions": MOST_POSITIONS,
            "max_target_positions": MOST_POSITIONS,
        }

    def _layer(self, side: str, number: int) -> None:
        own, theirs = f"{side}.layers.{number}", f"{side}_l{number + 1}"
        if side == "decoder" and self.recurrent:
            self._linear(
                f"{own}.cell.forget", f"{theirs}_rnn_Wf", f"{theirs}_rnn_bf", self.width, self.width
            )
            cell = f"{own}.cell.candidate"
            self.made[f"{cell}.weight"] = self._take(
                cell, f"{theirs}_rnn_W", self.width, self.width
            ).T
            suffix, prefix = ("_pre", f"{theirs}_rnn") if self.before else ("", f"{theirs}_rnn_ffn")
            self._norm(f"{own}.self_attn_layer_norm", prefix, suffix)
        else:
            self._attention(f"{own}.self_attn", f"{theirs}_self")
        if side == "decoder":
            self._attention(f"{own}.encoder_attn", f"{theirs}_context")
        self._linear(f"{own}.fc1", f"{theirs}_ffn_W1", f"{theirs}_ffn_b1", self.width, self.inner)
        self._linear(f"{own}.fc2", f"{theirs}_ffn_W2", f"{theirs}_ffn_b2", self.inner, self.width)
        self._norm(f"{own}.final_layer_norm", f"{theirs}_ffn_ffn", "_pre" if self.before else "")

    def _attention(self, own: str, theirs: str) -> None:
        for weight, bias, name in _ATTENTION:
            self._linear(
                f"{own}.{name}", f"{theirs}_{weight}", f"{theirs}_{bias}", self.width, self.width
            )
        self._norm(f"{own}_layer_norm", f"{theirs}_Wo", "_pre" if self.before else "")

    def _take(self, own: str, name: str, *shape: int) -> np.ndarray:
        """Returns Marian's matrix ``name``, which must have the given ``shape``, for fairseq's
        module ``own``. If it was stored as integers, its step (the value of the integer 1) is noted
        in :attr:`steps`."""
        if name in self.tensors.steps:
            self.steps[f"{own}.weight"] = self.tensors.steps[name]
        return self.tensors.take(name, *shape)

    def _linear(self, own: str, weight: str, bias: str, inputs: int, outputs: int) -> None:
        self.made[f"{own}.weight"] = self._take(own, weight, inputs, outputs).T
        self.made[f"{own}.bias"] = self.tensors.take(bias, 1, outputs)[0]

    def _norm(self, own: str, theirs: str, suffix: str) -> None:
        self.made[f"{own}.weight"] = self.tensors.take(f"{theirs}_ln_scale{suffix}", 1, self.width)[
            0
        ]
        self.made[f"{own}.bias"] = self.tensors.take(f"{theirs}_ln_bias{suffix}", 1, self.width)[0]


def _require_known(config: Settings) -> None:
    """Raises ValueError if an option that changes the computation of a Transformer has a value that
    cannot be converted."""
    config.require("type", ("transformer",), "amun")
    config.require("transformer-ffn-activation", ("relu", "swish", "gelu"), "swish")
    config.require("transformer-ffn-depth", ("2",), "2")
    for name in (
        "transformer-train-position-embeddings", "transformer-train-positions",
        "transformer-no-projection", "transformer-pool", "transformer-no-bias",
        "transformer-no-affine", "transformer-rms-norm", "right-left", "ulr",
    ):  # fmt: skip
        config.require(name, ("false",), "false")
    for name in ("lemma-dim-emb", "factors-dim-emb"):
        config.require(name, ("0",), "0")
    for name in ("transformer-tied-layers", "input-types"):
        if config.values.get(name) not in (None, [], ""):
            raise ValueError(
                f"{config.subject} has {name}: {shown(config.values[name])}: models with this"
                " option cannot be imported"
            )


def _normalisations(config: Settings) -> Tuple[bool, bool]:
    """Returns (whether layers are pre-norm, whether embeddings are normalised), according to
    Marian's options such as ``transformer-postprocess``. Each of their letters is an operation: n
    normalises, a adds the residual, d is dropout, which is ignored."""
    letters = [
        config.text(f"transformer-{name}", default).replace("d", "")
        for name, default in (
            ("preprocess", ""),
            ("postprocess", "dan"),
            ("postprocess-top", ""),
            ("postprocess-emb", "d"),
        )
    ]
    before, after, top, embedding = letters
    if (before, after, top) not in (("", "an", ""), ("n", "a", "n")) or embedding not in ("", "n"):
        raise ValueError(
            f"{config.subject} has transformer-preprocess {shown(before)}, -postprocess"
            f" {shown(after)}, -postprocess-top {shown(top)} and -postprocess-emb"
            f" {shown(embedding)}: such models cannot be imported; the first three must be '',"
            " 'an', '' or 'n', 'a', 'n', the last '' or 'n' (d, dropout, is ignored)"
        )
    return before == "n", embedding == "n"
