"""Converts checkpoints of DA-Transformer (thu-coai) and FA-DAT (ictnlp) to ``dag_transformer``.

Both are plugins of fairseq whose options, parameters and rules differ from this package's. Where
their models compute something that ``dag_transformer`` has no option for, it is expressed by
parameters: position tables start at the first vertex, sinusoids become a table, and segment
embeddings are added to the positions and to the vector of ``</s>``. Below, "their" means these two
plugins.
"""

import logging
from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Mapping

import numpy as np
import torch
from fairseq.data import Dictionary
from fairseq.modules import SinusoidalPositionalEmbedding

from ..dag.graph_size import UpsampleScale
from ..loading.checkpoints import IMPORTED, architecture_name, task_name, value_of
from ..native.conversion.converted import NEVER, ConvertedModel
from ..native.conversion.plain_files import Settings
from ..native.conversion.tensors import Tensors
from ..native.families.fields import MOST_LAYERS
from ..native.io.escaping import shown
from .lightseq_layers import lightseq_layer

logger = logging.getLogger(__name__)

# The task of DA-Transformer's second release; of its first one, and of FA-DAT.
_DAT, _FIRST = "translation_dat_task", "translation_lev_modified"
# Rows of fairseq's position tables before that of the first position: the ids up to padding.
_OFFSET = 2
_PAD, _EOS = 1, 2
# The activation functions that both engines have, by fairseq's names.
_ACTIVATIONS = ("relu", "gelu", "gelu_fast", "gelu_accurate", "tanh")
# The most positions that a file may name; a table of sinusoids is made for all of them.
_LONGEST = 1 << 16
# Classes of their length classifier, and the symbols, <s> and </s>, that their lengths include.
_CLASSES, _ENDS = 256, 2
# Our names of the links' parameters, and theirs; their decoding strategies, and ours.
_LINKS = {"query": "query_linear", "key": "key_linear", "gate": "gate_linear"}
_STRATEGIES = {
    "greedy": "greedy", "lookahead": "lookahead", "viterbi": "viterbi",
    "jointviterbi": "joint-viterbi",
}  # fmt: skip
# Switches that change what a model computes, and that ours does not have.
_NEVER_SET = (
    "adaptive_input", "layernorm_embedding", "no_cross_attention", "cross_self_attention",
    "src_embedding_copy",
)  # fmt: skip


def is_theirs(state: Mapping[str, Any]) -> bool:
    """Whether a checkpoint with the contents ``state`` holds a model of DA-Transformer or
    FA-DAT."""
    name = architecture_name(value_of(state.get("cfg"), "model"))
    return isinstance(name, str) and name.startswith(IMPORTED)


@dataclass(frozen=True)
class DaTransformer:
    """A converted checkpoint of DA-Transformer or FA-DAT.

    Attributes:
        model: the model as a ``dag_transformer``.
        segments: how many symbols ``[P0]``, ``[P1]``, … its dictionaries have after the words.
        positions: the largest number of vertices in a graph.
    """

    model: ConvertedModel
    segments: int
    positions: int


def convert(state: Mapping[str, Any], path: Path) -> DaTransformer:
    """Converts a checkpoint of DA-Transformer or FA-DAT.

    Args:
        state: the contents of the checkpoint, as the safe loader reads them.
        path: the file, for error messages.

    Raises:
        ValueError: the model has a part that ``dag_transformer`` cannot represent, or the file is
            damaged; the message names file and part.
    """
    return _Converter(state, path).converted()


def with_segments(data: Path, language: str, segments: int, folder: Path) -> None:
    """Copies the dictionary of a language from ``data`` to ``folder``, and adds after its words the
    ``segments`` symbols ``[P0]``, ``[P1]``, …, as DA-Transformer's task does.

    Raises:
        OSError, ValueError: the file cannot be read or written.
    """
    name = f"dict.{language}.txt"
    words = Dictionary.load(str(data / name))
    for number in range(segments):
        words.add_symbol(f"[P{number}]")
    words.save(str(folder / name))


class _Converter:
    """Converts one checkpoint; see :func:`convert`."""

    def __init__(self, state: Mapping[str, Any], path: Path) -> None:
        config = state["cfg"]
        self.path = path
        self.settings = Settings({**_plain(config.task), **_plain(config.model)}, path)
        task = task_name(config.task)
        if task not in (_DAT, _FIRST):
            raise ValueError(
                f"{path} was trained by the task {shown(task)}: only models of the tasks {_DAT} and"
                f" {_FIRST} can be imported"
            )
        self.first = task == _FIRST
        self.tensors = Tensors(_renamed(state["model"], path), path)
        self.options: Dict[str, Any] = {}
        self.parameters: Dict[str, np.ndarray] = {}

    def converted(self) -> DaTransformer:
        self._refuse_parts()
        read = self.settings
        # Their second release cuts graphs to one position less than there are.
        self.most = read.number("max_target_positions", 1024, least=3, most=_LONGEST)
        self.positions = self.most - (not self.first)
        self.options["max_source_positions"] = read.number(
            "max_source_positions", 1024, least=2, most=_LONGEST
        )
        self.options["max_target_positions"] = self.positions
        self.options["activation_fn"] = read.require("activation_fn", _ACTIVATIONS, "relu")
        for name in ("dropout", "attention_dropout", "activation_dropout"):
            self.options[name] = read.fraction(name, 0.1 if name == "dropout" else 0.0)
        if not self.first:
            self.options["truncate_source"] = read.switch("truncate_source")
        self.options["no_scale_embedding"] = read.switch("no_scale_embedding")
        for side in ("encoder", "decoder"):
            self._side(side)
        self._embeddings()
        self._links()
        self._sizes()
        self._decoding()
        self.tensors.require_all_used()
        model = ConvertedModel("dag_transformer", self.options, self.parameters)
        segments = 0 if self.first else read.number("seg_tokens", 0, least=0, most=4096)
        return DaTransformer(model, segments, self.positions)

    def _refuse_parts(self) -> None:
        read = self.settings
        for name in _NEVER_SET:
            read.require(name, (False,), False)
        for name in ("adaptive_softmax_cutoff", "encoder_layers_to_keep", "decoder_layers_to_keep"):
            read.require(name, (None,), None)
        width = read.number("decoder_embed_dim", 512)
        for name in ("decoder_input_dim", "decoder_output_dim"):
            read.require(name, (width,), width)

    # ------------------------------------------------------------------ parameters

    def _take(self, name: str, *shape: int, into: str = "") -> np.ndarray:
        """Returns the original model's parameter ``name``, which must have the given ``shape``, and
        copies it to the converted model, there named ``into`` if that is not empty."""
        value: np.ndarray = self.tensors.take(name, *shape)
        self.parameters[into or name] = value
        return value

    def _linear(self, name: str, outputs: int, inputs: int, *, into: str = "") -> None:
        self._take(f"{name}.weight", outputs, inputs, into=into and f"{into}.weight")
        self._take(f"{name}.bias", outputs, into=into and f"{into}.bias")

    def _norm(self, name: str, width: int) -> None:
        self._take(f"{name}.weight", width)
        self._take(f"{name}.bias", width)

    def _side(self, side: str) -> None:
        """Converts the layers of the encoder or decoder (``side``), and its options."""
        read, options = self.settings, self.options
        width = read.number(f"{side}_embed_dim", 512)
        inner = read.number(f"{side}_ffn_embed_dim", 2048)
        layers = read.number(f"{side}_layers", 6, most=MOST_LAYERS)
        source = read.number("encoder_embed_dim", 512)
        before = read.switch(f"{side}_normalize_before")
        options.update({
            f"{side}_embed_dim": width, f"{side}_ffn_embed_dim": inner, f"{side}_layers": layers,
            f"{side}_attention_heads": read.number(f"{side}_attention_heads", 8),
            f"{side}_normalize_before": before,
            f"{side}_learned_pos": read.switch(f"{side}_learned_pos"),
        })  # fmt: skip
        if f"{side}.layers.0.para" in self.tensors:
            self._unpack(side, layers, width, inner)
        for number in range(layers):
            layer = f"{side}.layers.{number}"
            attentions = {"self_attn": width}
            if side == "decoder":
                attentions["encoder_attn"] = source
            for attention, reads in attentions.items():
                for part in ("q", "k", "v", "out"):
                    inputs = reads if part in "kv" else width
                    self._linear(f"{layer}.{attention}.{part}_proj", width, inputs)
                self._norm(f"{layer}.{attention}_layer_norm", width)
            self._linear(f"{layer}.fc1", inner, width)
            self._linear(f"{layer}.fc2", width, inner)
            self._norm(f"{layer}.final_layer_norm", width)
        if before:
            self._norm(f"{side}.layer_norm", width)

    def _unpack(self, side: str, layers: int, width: int, inner: int) -> None:
        """Replaces LightSeq's layers, each of which is a single vector, by fairseq's parameters, in
        :attr:`tensors`.

        Args:
            side: ``encoder`` or ``decoder``.
            layers: the number of layers of this side.
            width, inner: widths of the layers and of their feed-forward networks.
        """
        held = self.tensors.held
        for number in range(layers):
            parts = lightseq_layer(side, number, layers, width, inner)
            sizes = [int(np.prod(shape)) for _, shape in parts]
            flat = self.tensors.take(f"{side}.layers.{number}.para", sum(sizes))
            for (name, shape), part in zip(parts, np.split(flat, np.cumsum(sizes)[:-1])):
                if name in held:
                    raise ValueError(
                        f"{self.path} has {shown(name)} twice, by itself and within LightSeq's"
                        " layer: keep only one of the two"
                    )
                held[name] = part.reshape(shape)

    def _embeddings(self) -> None:
        """Converts word vectors, position vectors and the output layer."""
        read, options = self.settings, self.options
        for name, side in (
            ("encoder.embed_tokens", "encoder"),
            ("decoder.embed_tokens", "decoder"),
            ("decoder.output_projection", "decoder"),
        ):
            words = self.tensors.shape(f"{name}.weight")[0]
            self._take(f"{name}.weight", words, options[f"{side}_embed_dim"])
        positions = not read.switch("no_token_positional_embeddings")
        options["no_token_positional_embeddings"] = not positions
        if positions and options["encoder_learned_pos"]:
            rows = options["max_source_positions"] + _OFFSET
            self._take("encoder.embed_positions.weight", rows, options["encoder_embed_dim"])
        if positions and options["decoder_learned_pos"]:
            self.parameters["decoder.embed_positions.weight"] = self._target_table(
                "decoder.embed_positions.weight"
            )
        if not self.first and read.switch("segment_embedding"):
            self._segments(positions)
        parameters = self.parameters
        output, target, source = (
            parameters[name]
            for name in (
                "decoder.output_projection.weight", "decoder.embed_tokens.weight",
                "encoder.embed_tokens.weight",
            )
        )  # fmt: skip
        tied = np.array_equal(output, target)
        options["share_all_embeddings"] = tied and np.array_equal(source, target)
        options["share_decoder_input_output_embed"] = tied

    def _target_table(self, name: str) -> np.ndarray:
        """The learned position table ``name`` of the original decoder, cut to the positions that
        graphs use."""
        width = self.options["decoder_embed_dim"]
        table: np.ndarray = self.tensors.take(name, self.most + _OFFSET, width)
        return table[: self.positions + _OFFSET]

    def _segments(self, positions: bool) -> None:
        """Expresses the original model's segment embedding by other parameters: all vertices belong
        to segment 1, except the last, ``</s>``, which belongs to segment 2. ``positions``: whether
        the model has position vectors; ValueError if not.

        The vector of segment 1 is added to all position vectors, and the difference between both
        segments' vectors to the word vector of ``</s>``, which therefore is no longer shared with
        the output layer.
        """
        options, width = self.options, self.options["decoder_embed_dim"]
        name = "decoder.embed_seg.weight"
        rows = self.tensors.shape(name)[0]
        if rows < 3:
            raise ValueError(
                f"{self.path}: {name} has {rows} rows; it must have at least 3, for segments 0 to 2"
            )
        segments = self.tensors.take(name, rows, width)
        if not positions:
            raise ValueError(
                f"{self.path} has segment_embedding and no_token_positional_embeddings, both True:"
                " models with both options cannot be imported"
            )
        table = self.parameters.get("decoder.embed_positions.weight")
        if table is None:
            table = _sinusoids(self.positions + _OFFSET, width)
            options["decoder_learned_pos"] = True
        table = table.copy()
        table[_OFFSET:] += segments[1]
        words = self.parameters["decoder.embed_tokens.weight"].copy()
        scale = 1.0 if options["no_scale_embedding"] else width**0.5
        words[_EOS] += (segments[2] - segments[1]) / scale
        self.parameters["decoder.embed_positions.weight"] = table
        self.parameters["decoder.embed_tokens.weight"] = words

    def _links(self) -> None:
        """Converts the parameters and options of the links between vertices."""
        read, options, width = self.settings, self.options, self.options["decoder_embed_dim"]
        named = read.text("links_feature", "feature:position").split(":")
        table = None
        if "position" in named:
            table = self._target_table("decoder.link_positional.weight")[_OFFSET:]
        elif "sinposition" in named:
            table = _sinusoids(self.positions + _OFFSET, width)[_OFFSET:]
        features = ["feature"] if "feature" in named else []
        if table is not None:
            features.append("position")
            self.parameters["decoder.links.position.weight"] = table
        if not features:
            raise ValueError(
                f"{self.path} has links_feature: {shown(':'.join(named))}; only models with"
                " feature, position or sinposition can be imported"
            )
        options["dag_link_features"] = ":".join(features)
        for own, theirs in _LINKS.items():
            outputs = options["decoder_attention_heads"] if own == "gate" else width
            self._linear(
                f"decoder.{theirs}", outputs, width * len(features), into=f"decoder.links.{own}"
            )
        reach = read.number("max_transition_length", 99999, least=-1)
        if reach == 0:
            raise ValueError(
                f"{self.path} has max_transition_length: 0, with which no link exists: the model"
                " cannot write translations"
            )
        if 0 < reach < self.positions:
            options["dag_max_transition_length"] = reach

    # ------------------------------------------------------------------ sizes and decoding

    def _sizes(self) -> None:
        """Converts the options that determine how many vertices a graph has."""
        read, options = self.settings, self.options
        width = options["encoder_embed_dim"]
        head = self.tensors.take("decoder.embed_length.weight", _CLASSES, width)
        if self.first:
            if read.values.get("src_upsample_scale") is None:
                raise ValueError(
                    f"{self.path} has no src_upsample_scale: models whose graphs have a fixed size,"
                    " or a predicted length, cannot be imported"
                )
            text, base = str(read.fraction("src_upsample_scale", 0.0)), "source_old"
        else:
            text = read.text("upsample_scale", "4~8")
            base = read.require("upsample_base", ("source", "source_old", "predict"), "source")
        try:
            scales = UpsampleScale.parse(text)
        except ValueError:
            raise ValueError(
                f"{self.path} has the scale {shown(text)}; it must be a number or an ascending"
                " range, such as 4~8"
            ) from None
        options["dag_upsample_scale"] = "~".join(f"{one:.9g}" for one in dict.fromkeys(scales))
        if read.values.get("decode_upsample_scale") is not None:
            decoding = read.fraction("decode_upsample_scale", 0.0)
            if decoding != scales.middle:
                options["dag_decode_upsample_scale"] = decoding
        options["dag_read_bos"] = self.first or read.switch("prepend_bos")
        options["dag_upsample_base"] = {"source": "source-words", "source_old": "source"}.get(
            base, base
        )
        if base == "predict":
            self._length_head(head)

    def _length_head(self, head: np.ndarray) -> None:
        """Converts the classifier of target lengths, whose weights are ``head``. The original
        classes are lengths that include ``<s>`` and ``</s>``, or differences between such a length
        and the source's, from -128 to 127; those of ``dag_transformer`` are numbers of words, or
        differences."""
        options, biases = self.options, np.zeros(_CLASSES, np.float32)
        if self.settings.switch("pred_length_offset"):
            # 4 more classes move the middle by 2: each class then means 2 less, <s> and </s>.
            more = 2 * _ENDS
            head = np.concatenate([head, np.zeros((more, head.shape[1]), np.float32)])
            biases = np.concatenate([biases, np.full(more, NEVER, np.float32)])
        else:
            # No target has less than <s> and </s>.
            head, biases = head[_ENDS:], biases[_ENDS:]
            options["dag_absolute_lengths"] = True
        options["dag_length_classes"] = len(head)
        self.parameters["decoder.length_head.output.weight"] = head
        self.parameters["decoder.length_head.output.bias"] = biases

    def _decoding(self) -> None:
        """Adds to :attr:`options` the decoding defaults by which the model is decoded as by its
        original plugin; logs a warning for an option that has no equivalent."""
        read, options = self.settings, self.options
        theirs = read.text("decode_strategy", "lookahead")
        if theirs not in _STRATEGIES:
            logger.warning(
                "%s is decoded by lookahead: its decode_strategy %s has no equivalent here",
                self.path,
                shown(theirs),
            )
        strategy = _STRATEGIES.get(theirs, "lookahead")
        options["dag_decode_strategy"], options["dag_allow_unk"] = strategy, True
        if strategy != "greedy":
            options["dag_repeats"] = "collapsed"
        if strategy == "lookahead":
            options["dag_decode_beta"] = read.fraction("decode_beta", 1.0)
        if "viterbi" in strategy:
            options["dag_decode_length_beta"] = read.fraction("decode_viterbibeta", 1.0)
        for name in ("decode_no_consecutive_repeated_ngram", "decode_no_repeated_ngram"):
            if read.number(name, 0, least=0):
                logger.warning(
                    "%s: its option %s has no equivalent here and is ignored", self.path, name
                )


def _plain(config: Any) -> Dict[str, Any]:
    """A part of a configuration (namespace or mapping) as a dictionary."""
    held = vars(config) if isinstance(config, Namespace) else config
    return {str(name): value_of(config, name) for name in list(held)}


def _renamed(held: Mapping[str, Any], path: Path) -> Dict[str, np.ndarray]:
    """The parameters in ``held`` as float32 arrays, by the names that DA-Transformer's present
    version uses. ``path``: the file, for messages."""
    found: Dict[str, np.ndarray] = {}
    for name, value in held.items():
        if not isinstance(name, str) or not isinstance(value, torch.Tensor):
            raise ValueError(
                f"{path}: the parameter {shown(name)} is not a tensor: save the model's"
                " state_dict() as the checkpoint's entry model"
            )
        if name.endswith((".version", "._float_tensor")):
            # Buffers of fairseq without meaning here.
            continue
        own = name.replace("decoder.link_predictor.", "decoder.", 1)
        if own in found:
            raise ValueError(
                f"{path} has {shown(own)} twice, with and without link_predictor in its name: keep"
                " only one of the two"
            )
        found[own] = value.detach().to(torch.float32).numpy()
    return found


def _sinusoids(rows: int, width: int) -> np.ndarray:
    """fairseq's table of sinusoidal position vectors, ``[rows, width]``."""
    table: np.ndarray = SinusoidalPositionalEmbedding.get_embedding(rows, width, _PAD).numpy()
    return table
