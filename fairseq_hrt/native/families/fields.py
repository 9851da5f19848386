"""The hyper-parameters that the models of every family have."""

import math
from dataclasses import dataclass, field
from typing import Any

ACTIVATIONS = ("relu", "gelu", "gelu_fast", "gelu_accurate", "tanh", "swish")
# How a decoder layer reads earlier words: self-attention, or a recurrent unit in its place.
CELLS = ("attention", "ssru")
STORED = ("int8", "float32")
# Larger sizes mean a broken file.
LARGEST = 1 << 20
# Sums of this many int8 products fit into 32 bits.
LARGEST_INPUTS = 1 << 16
MOST_LAYERS, MOST_SYMBOLS = 512, 1 << 24


class ModelFileError(ValueError):
    """Raised for a model file that cannot be used; the message states what is wrong with it."""


def later(default: Any) -> Any:
    """Declares a header field that model files of earlier releases lack. The field is written only
    if its value differs from ``default``, so that earlier releases can read the file."""
    return field(default=default, metadata={"later": True})


@dataclass(frozen=True, kw_only=True)
class ModelFields:
    """The fields of a model file's header that every family has; some families add others in a
    subclass.

    Attributes:
        family: name of the family, one of MODEL_FAMILIES.
        weights: how matrices are stored, ``int8`` or ``float32``.
        source_vocabulary, target_vocabulary: numbers of words of the dictionaries.
        bos, pad, eos, unk: ids of the special symbols, the same in both dictionaries.
        encoder_width, decoder_width: D, the size of embeddings and hidden states.
        encoder_inner, decoder_inner: inner sizes of the feed-forward layers.
        encoder_pre_norm, decoder_pre_norm: whether a norm is applied before each attention or
            feed-forward block; False: after it.
        encoder_final_norm, decoder_final_norm: whether there is a norm after the last layer.
        encoder_embedding_norm, decoder_embedding_norm: whether a norm follows the embedding.
        encoder_scale, decoder_scale: the factor by which embeddings are multiplied.
        encoder_positions, decoder_positions: rows of the position tables; 0: no positions.
        longest_source: most source tokens, ``</s>`` included.
        longest_target: most target tokens, the decoder's ``max_positions()`` in fairseq.
        shared_embedding: whether source and target words have one embedding.
        tied_output: whether the output layer is the target embedding.
        output_bias: whether the output layer has a bias.
        epsilon: the ε of all layer norms.
        input_bits: to how many bits the vectors that int8 matrices multiply are rounded, 8 or 16.
    """

    family: str
    weights: str
    source_vocabulary: int
    target_vocabulary: int
    bos: int
    pad: int
    eos: int
    unk: int
    encoder_width: int
    decoder_width: int
    encoder_layers: int
    decoder_layers: int
    encoder_heads: int
    decoder_heads: int
    encoder_inner: int
    decoder_inner: int
    encoder_pre_norm: bool
    decoder_pre_norm: bool
    encoder_final_norm: bool
    decoder_final_norm: bool
    encoder_embedding_norm: bool
    decoder_embedding_norm: bool
    activation: str
    encoder_scale: float
    decoder_scale: float
    encoder_positions: int
    decoder_positions: int
    longest_source: int
    longest_target: int
    shared_embedding: bool
    tied_output: bool
    output_bias: bool
    epsilon: float = 1e-5
    input_bits: int = later(8)

    def demand(self, fits: bool, *names: str) -> None:
        """Raises ModelFileError unless ``fits``; the message lists the fields in ``names`` and
        their values."""
        if not fits:
            values = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
            raise ModelFileError(
                f"its header holds {values:.200}, which no model has: the model file is damaged, or"
                " the native engine does not support such models; convert the model again, or use"
                " --engine torch"
            )

    def between(self, low: int, high: int, *names: str) -> None:
        """Raises ModelFileError unless ``low`` <= value <= ``high`` for each of the fields
        ``names``."""
        for name in names:
            self.demand(low <= getattr(self, name) <= high, name)

    def check_common(self) -> None:
        """Checks the fields that all families have.

        Raises:
            ModelFileError: a field has a value that no model has; the message names the field.
        """
        self.demand(self.weights in STORED, "weights")
        self.demand(self.activation in ACTIVATIONS, "activation")
        self.between(5, MOST_SYMBOLS, "source_vocabulary", "target_vocabulary")
        self.between(1, LARGEST, "longest_source", "longest_target")
        self.between(0, LARGEST, "encoder_positions", "decoder_positions")
        self.between(0, MOST_LAYERS, "encoder_layers")
        self.between(1, MOST_LAYERS, "decoder_layers")
        for side, width in (("encoder", self.encoder_width), ("decoder", self.decoder_width)):
            self.between(1, LARGEST_INPUTS, f"{side}_width", f"{side}_inner")
            self.between(1, width, f"{side}_heads")
            fits = width % getattr(self, f"{side}_heads") == 0
            self.demand(fits, f"{side}_width", f"{side}_heads")
            self.demand(math.isfinite(getattr(self, f"{side}_scale")), f"{side}_scale")
        # The longest source, and all positions of the longest target, need position vectors.
        fits = self.encoder_positions in (0, self.longest_source)
        self.demand(fits, "encoder_positions", "longest_source")
        fits = self.decoder_positions == 0 or self.decoder_positions >= self.longest_target
        self.demand(fits, "decoder_positions", "longest_target")
        self.demand(0 < self.epsilon < 1, "epsilon")
        self.demand(self.input_bits in (8, 16), "input_bits")
        special = ("bos", "pad", "eos", "unk")
        self.between(0, min(self.source_vocabulary, self.target_vocabulary) - 1, *special)
        self.demand(len({getattr(self, name) for name in special}) == 4, *special)
        if self.shared_embedding:
            fits = self.source_vocabulary == self.target_vocabulary
            self.demand(fits, "source_vocabulary", "target_vocabulary")
            fits = self.encoder_width == self.decoder_width
            self.demand(fits, "encoder_width", "decoder_width")
