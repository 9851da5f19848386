"""The hyper-parameters of a model file: a strict JSON schema."""

import json
import math
from dataclasses import asdict, dataclass, fields
from typing import Any, Tuple

from ..families import MODEL_FAMILIES

FORMAT = 1
ACTIVATIONS = ("relu", "gelu", "gelu_fast", "gelu_accurate", "tanh", "swish")
# The part in the place of self-attention in a decoder's layers.
CELLS = ("attention", "ssru")
STORED = ("int8", "float32")
# Sizes beyond these are those of a broken file, not of a model.
LARGEST = 1 << 20
# Sums of so many int8 products fit into 32 bits.
LARGEST_INPUTS = 1 << 16
MOST_LAYERS, MOST_SYMBOLS = 512, 1 << 24
# Fields that files of earlier releases do not have; what is not used is not written, so that those
# read it.
LATER = ("cell", "zero_start")
# Fields that models of other families leave at their defaults.
_OF_FAMILY = {
    "autoregressive": ("cell", "zero_start"),
    "hrt": ("chunk_sizes", "special_symbols", "relative_window"),
    "bidirectional": ("directions", "block"),
    "dag": ("link_heads", "link_rows", "length_classes"),
}


class ModelFileError(ValueError):
    """A model file that cannot be used; the message names the file and what is wrong with it."""


@dataclass(frozen=True)
class Header:
    """Hyper-parameters of a model; the JSON has exactly these fields, those of LATER only where
    they are not the default.

    Attributes:
        family: what the decoder is, one of MODEL_FAMILIES.
        weights: how matrices are stored, ``int8`` or ``float32``.
        source_vocabulary, target_vocabulary: words of the dictionaries.
        special_symbols: ids of the decoder's input behind the target dictionary (mask and start
            symbols of hrt).
        encoder_width, decoder_width: D; likewise layers, heads, and inner sizes of the feed-forward
        layers. encoder_pre_norm, decoder_pre_norm: the norm stands before each block.
        encoder_final_norm, decoder_final_norm: and one behind the last layer.
        encoder_embedding_norm, decoder_embedding_norm: and one behind the embedding.
        encoder_scale, decoder_scale: the embeddings' factor.
        encoder_positions, decoder_positions: rows of the position tables; 0: no positions.
        longest_source: most source tokens, ``</s>`` included.
        longest_target: the decoder's capacity in fairseq's rule of the maximum length.
        shared_embedding: source and target words have one embedding.
        tied_output: the output layer is the target embedding.
        output_bias: the output layer has a bias.
        epsilon: of all norms.
        cell: what the decoder's layers remember earlier words with, one of CELLS; ``ssru``: the
            simpler simple recurrent unit (Kim et al., 2019), c = f * c + (1 - f) * W x with f =
            sigmoid(W_f x + b), in the place of self-attention.
        zero_start: the decoder's first input, ``</s>``, has a zero vector as embedding.
        chunk_sizes, relative_window, learn_tail: of hrt, see its decoder.
        directions, block, causal, independent, middle_to_side: of bidirectional, see its decoder.
        link_heads, link_rows, reach, scale, count_bos, length_classes: of dag; rows of the table of
        positions, 0: any distance,
            λ, whether ``<s>`` counts as source token, classes of the length head (0: none).
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
    special_symbols: int = 0
    chunk_sizes: Tuple[int, ...] = ()
    relative_window: int = 0
    learn_tail: bool = True
    directions: int = 1
    block: int = 1
    causal: bool = True
    independent: bool = False
    middle_to_side: bool = False
    link_heads: int = 0
    link_rows: int = 0
    reach: int = 0
    scale: float = 0.0
    count_bos: bool = False
    length_classes: int = 0
    cell: str = "attention"
    zero_start: bool = False

    def to_json(self) -> str:
        """The text that :meth:`from_json` reads."""
        values = asdict(self)
        for item in fields(self):
            if item.name in LATER and values[item.name] == item.default:
                del values[item.name]
        return json.dumps({"format": FORMAT, **values}, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> "Header":
        """Reads and checks the JSON.

        Raises:
            ModelFileError: what is wrong, by the name of the field.
        """
        try:
            values = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ModelFileError(f"its header is not JSON ({error})") from None
        if not isinstance(values, dict):
            raise ModelFileError("its header is not a JSON object")
        version = values.pop("format", None)
        if version != FORMAT or isinstance(version, bool):
            raise ModelFileError(
                f"its format is {version!r}, this release reads {FORMAT}; convert the model again"
            )
        known = {item.name: item for item in fields(cls)}
        odd = sorted((set(values) ^ set(known)) - (set(LATER) - set(values)))
        if odd:
            raise ModelFileError(f"its header has a missing or unknown field, {odd[0]!r}")
        header = cls(
            **{
                name: _typed(name, item.type, values[name])
                for name, item in known.items()
                if name in values
            }
        )
        header.check()
        return header

    def check(self) -> None:
        """Refuses values that no model has.

        Raises:
            ModelFileError: naming the field.
        """
        self._check_sizes()
        for family, names in _OF_FAMILY.items():
            for name in names if family != self.family else ():
                self._demand(getattr(self, name) == getattr(Header, name), "family", name)
        if self.family == "hrt":
            self._check_hrt()
        elif self.family == "bidirectional":
            self._check_bidirectional()
        elif self.family == "dag":
            self._check_dag()

    def _demand(self, fits: bool, *names: str) -> None:
        if not fits:
            values = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
            raise ModelFileError(f"its header holds {values:.200}, which no model has")

    def _between(self, low: int, high: int, *names: str) -> None:
        for name in names:
            self._demand(low <= getattr(self, name) <= high, name)

    def _check_sizes(self) -> None:
        for name, known in (
            ("family", MODEL_FAMILIES),
            ("weights", STORED),
            ("activation", ACTIVATIONS),
            ("cell", CELLS),
        ):
            self._demand(getattr(self, name) in known, name)
        self._between(5, MOST_SYMBOLS, "source_vocabulary", "target_vocabulary")
        self._between(1, LARGEST, "longest_source", "longest_target")
        self._between(0, LARGEST, "encoder_positions", "decoder_positions", "special_symbols")
        self._between(0, LARGEST, "link_rows", "reach", "length_classes")
        self._between(0, MOST_LAYERS, "encoder_layers")
        self._between(1, MOST_LAYERS, "decoder_layers")
        for side, width in (("encoder", self.encoder_width), ("decoder", self.decoder_width)):
            self._between(1, LARGEST_INPUTS, f"{side}_width", f"{side}_inner")
            self._between(1, width, f"{side}_heads")
            fits = width % getattr(self, f"{side}_heads") == 0
            self._demand(fits, f"{side}_width", f"{side}_heads")
            self._demand(math.isfinite(getattr(self, f"{side}_scale")), f"{side}_scale")
        # The source and all slots of the longest target have to have positions.
        fits = self.encoder_positions in (0, self.longest_source)
        self._demand(fits, "encoder_positions", "longest_source")
        fits = self.decoder_positions == 0 or self.decoder_positions >= self.longest_target
        self._demand(fits, "decoder_positions", "longest_target")
        self._demand(0 < self.epsilon < 1, "epsilon")
        special = ("bos", "pad", "eos", "unk")
        self._between(0, min(self.source_vocabulary, self.target_vocabulary) - 1, *special)
        self._demand(len({getattr(self, name) for name in special}) == 4, *special)
        if self.shared_embedding:
            fits = self.source_vocabulary == self.target_vocabulary
            self._demand(fits, "source_vocabulary", "target_vocabulary")
            fits = self.encoder_width == self.decoder_width
            self._demand(fits, "encoder_width", "decoder_width")

    def _check_hrt(self) -> None:
        sizes = self.chunk_sizes
        self._demand(0 < len(sizes) <= 256 and len(set(sizes)) == len(sizes), "chunk_sizes")
        self._demand(all(2 <= size <= 4096 for size in sizes), "chunk_sizes")
        self._demand(self.special_symbols == 1 + len(sizes), "special_symbols", "chunk_sizes")
        self._between(0, 65536, "relative_window")

    def _check_bidirectional(self) -> None:
        h, z = self.directions, self.block
        self._demand(1 <= h <= 4096 and (h == 1 or h % 2 == 0), "directions")
        self._demand(1 <= z <= 4096 and (z == 1 or z % h == 0), "block", "directions")
        self._demand(not self.middle_to_side or h == 2, "middle_to_side", "directions")

    def _check_dag(self) -> None:
        self._between(1, self.decoder_width, "link_heads")
        self._demand(self.decoder_width % self.link_heads == 0, "link_heads", "decoder_width")
        fits = self.link_rows == 1 or self.link_rows >= self.longest_target
        self._demand(fits, "link_rows", "longest_target")
        self._demand(0 < self.scale <= 1e6, "scale")
        # The first and the last vertex.
        self._demand(self.longest_target >= 2, "longest_target")
        self._demand(self.length_classes != 1, "length_classes")


def _typed(name: str, kind: object, value: object) -> Any:
    """A JSON value as the field's type."""
    if kind is bool and isinstance(value, bool):
        return value
    if kind is int and isinstance(value, int) and not isinstance(value, bool):
        return value
    if kind is float and isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            pass
    if kind is str and isinstance(value, str):
        return value
    if (
        kind is Tuple[int, ...]
        and isinstance(value, (list, tuple))
        and all(isinstance(item, int) and not isinstance(item, bool) for item in value)
    ):
        return tuple(value)
    raise ModelFileError(f"the field {name!r} of its header holds {value!r:.80}")
