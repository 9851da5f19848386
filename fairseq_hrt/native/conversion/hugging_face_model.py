"""Converts parameters and options of Hugging Face's Marian, MBart and M2M-100 models to fairseq's,
whose module names they share."""

from typing import Any, Dict, Tuple

import numpy as np

from ..io.escaping import shown
from ..runtime.sinusoids import fairseq_frequencies, sinusoids
from .converted import NEVER, ConvertedModel
from .plain_files import Settings
from .tensors import Tensors
from .vocabularies import Vocabulary

_SIDES = ("encoder", "decoder")
# Other names of fairseq's activation functions.
_ACTIVATIONS = {"silu": "swish"}
MOST_POSITIONS = 1 << 14
# Id of </s> in fairseq's dictionaries.
_EOS = 2


def frequencies(width: int) -> np.ndarray:
    """The frequencies 10000^(-2 i / width) of sinusoidal position vectors of ``width`` numbers, as
    in Hugging Face's Marian, ``[width / 2]``. Marian itself and fairseq use other frequencies, see
    :func:`..runtime.sinusoids.fairseq_frequencies`."""
    return 1 / np.power(10000.0, 2 * np.arange(width // 2) / width)


def require_rows(tensors: Tensors, config: Settings, sizes: Tuple[int, int]) -> None:
    """Raises ValueError if an embedding is missing, or does not have one row for each word;
    ``sizes`` are the numbers of source and target words. Called before vocabularies of these sizes
    are made."""
    for side, size in zip(_SIDES, sizes):
        tensors.take(_embedding(tensors, side), size, config.number("d_model"))


def _embedding(tensors: Tensors, side: str) -> str:
    """The name under which the file holds the embedding of the encoder or decoder (``side``): its
    own name, or for a shared embedding the first of its other names that the file has."""
    names = (f"model.{side}.embed_tokens.weight", "model.shared.weight", "lm_head.weight")
    return next((name for name in names if name in tensors), names[0])


class HuggingFaceModel:
    """A model of Hugging Face, to be converted by :meth:`marian` or :meth:`multilingual`.

    Args:
        tensors: the model's weights.
        config: the contents of ``config.json``.
        source, target: vocabularies with as many words as the embeddings have rows.
    """

    def __init__(
        self, tensors: Tensors, config: Settings, source: Vocabulary, target: Vocabulary
    ) -> None:
        self.tensors, self.config, self.words = (
            tensors,
            config,
            {"encoder": source, "decoder": target},
        )
        self.width = config.number("d_model")
        self.positions = config.number("max_position_embeddings", most=MOST_POSITIONS)
        self.made: Dict[str, np.ndarray] = {}
        self.options: Dict[str, Any] = {
            "activation_fn": _ACTIVATIONS.get(
                config.text("activation_function"), config.text("activation_function")
            ),
            "no_scale_embedding": not config.switch("scale_embedding"),
            "max_source_positions": self.positions,
            "max_target_positions": self.positions,
        }
        for side in _SIDES:
            heads = config.number(f"{side}_attention_heads")
            if self.width % (2 * heads):
                raise ValueError(
                    f"{config.subject} has d_model: {self.width} and {side}_attention_heads:"
                    f" {heads}; the first must be a multiple of twice the second"
                )
            self.options.update(
                {
                    f"{side}_embed_dim": self.width,
                    f"{side}_layers": config.number(f"{side}_layers", most=1000),
                    f"{side}_ffn_embed_dim": config.number(f"{side}_ffn_dim"),
                    f"{side}_attention_heads": heads,
                }
            )

    def marian(self, start: int) -> ConvertedModel:
        """Converts a Marian model to the architecture ``marian_transformer``. Its position vectors
        become a table, since Hugging Face's sinusoids are neither Marian's nor fairseq's.

        Args:
            start: the row of the target embedding that is the decoder's first input.

        Raises:
            ValueError: the model has an option or tensor that ``marian_transformer`` lacks.
        """
        config = self.config
        config.require("activation_function", ("swish", "silu", "relu", "gelu"), "")
        for name in (
            "normalize_before",
            "normalize_embedding",
            "add_final_layer_norm",
            "add_bias_logits",
        ):
            config.require(name, (False,), False)
        config.require("static_position_embeddings", (True,), True)
        self._embeddings()
        self._layers()
        target = self.words["decoder"]
        matrix = self.tensors.held[_embedding(self.tensors, "decoder")]
        if start >= len(matrix):
            raise ValueError(
                f"{config.subject} has decoder_start_token_id: {start}, but the embedding has only"
                f" {len(matrix)} rows: give the index of a row, from 0"
            )
        # Marian's decoders start from zeros. Fine-tuning in transformers moves that row, which the
        # output layer shares. Here decoders start with </s>, whose row they read nowhere else: it
        # gets the moved vector.
        moved = bool(np.any(matrix[start]))
        if moved:
            own = self.made["decoder.embed_tokens.weight"].copy()
            own[_EOS] = matrix[start]
            self.made["decoder.embed_tokens.weight"] = own
            self.options.update(share_all_embeddings=False, share_decoder_input_output_embed=False)
        bias = np.zeros(target.size, np.float32)
        if "final_logits_bias" in self.tensors:
            bias = self.tensors.take("final_logits_bias", 1, target.size)[0]
        self.made["decoder.output_projection.bias"] = target.reordered(bias, NEVER)
        computed = sinusoids(np.arange(self.positions), frequencies(self.width))
        for side in _SIDES:
            name = f"{side}.embed_positions.weight"
            vectors = computed
            if f"model.{name}" in self.tensors:
                # The library transformers takes position vectors from the file, if it has them.
                vectors = self.tensors.take(f"model.{name}", self.positions, self.width)
            self.made[name] = np.concatenate([np.zeros((2, self.width), np.float32), vectors])
            self.options[f"{side}_learned_pos"] = True
        self.options.update(
            marian_epsilon=1e-5,
            marian_output_bias="yes",
            marian_zero_start="no" if moved else "yes",
            marian_cell="attention",
        )
        self.tensors.require_all_used()
        return ConvertedModel("marian_transformer", self.options, self.made)

    def multilingual(self, learned: bool) -> ConvertedModel:
        """Converts an MBart or M2M-100 model to fairseq's ``transformer`` with pre-norm.

        Args:
            learned: True if positions are learned and embeddings normalised, as in MBart; False if
                positions are sinusoidal, as in M2M-100.

        Raises:
            ValueError: the model has an option or tensor that ``transformer`` lacks.
        """
        config, width = self.config, self.width
        config.require("activation_function", ("relu", "gelu"), "")
        config.require("normalize_before", (True,), True)
        config.require("add_final_layer_norm", (True,), True)
        config.require("normalize_embedding", (learned,), learned)
        self._embeddings()
        self._layers()
        for side in _SIDES:
            self.options[f"{side}_normalize_before"] = True
            self._copy(f"{side}.layer_norm", width)
            if learned:
                self.options[f"{side}_learned_pos"] = True
                self.options["layernorm_embedding"] = True
                self._copy(f"{side}.layernorm_embedding", width)
                name = f"{side}.embed_positions.weight"
                self.made[name] = self.tensors.take(f"model.{name}", self.positions + 2, width)
            else:
                self._require_sinusoids(f"model.{side}.embed_positions.weights")
        if "final_logits_bias" in self.tensors:
            bias = self.tensors.take("final_logits_bias", 1, self.words["decoder"].size)
            if np.any(bias):
                raise ValueError(
                    f"{self.tensors.subject} has a final_logits_bias that is not zero: models with"
                    " such a bias cannot be imported"
                )
        self.tensors.require_all_used()
        return ConvertedModel("transformer", self.options, self.made)

    def _require_sinusoids(self, name: str) -> None:
        """Raises ValueError if the file has a tensor ``name`` whose position vectors differ from
        fairseq's sinusoids. The library transformers ignores this tensor and computes sinusoids,
        but the model may have been trained with the tensor, which is not supported."""
        if name not in self.tensors:
            return
        rows, _ = self.tensors.shape(name)
        stored = self.tensors.take(name, rows, self.width)
        expected = sinusoids(np.arange(2, rows), fairseq_frequencies(self.width))
        # The tolerance admits tensors of half precision.
        if not np.allclose(stored[2:], expected, atol=0.01):
            raise ValueError(
                f"{self.tensors.subject}: {shown(name)} holds other position vectors than the usual"
                " sinusoids, so the model cannot be imported; remove this tensor from the file if"
                " the model was trained with sinusoids"
            )

    def _embeddings(self) -> None:
        config, tensors = self.config, self.tensors
        for side in _SIDES:
            words = self.words[side]
            matrix = tensors.take(_embedding(tensors, side), words.size, self.width)
            self.made[f"{side}.embed_tokens.weight"] = words.reordered(matrix)
        for name in ("model.shared.weight", "lm_head.weight"):
            # These are other names of the embedding.
            if name in tensors:
                tensors.used.add(name)
        target, own = self.words["decoder"], self.made["decoder.embed_tokens.weight"]
        tied = config.switch("tie_word_embeddings", True)
        output = own
        if not tied:
            output = target.reordered(tensors.take("lm_head.weight", target.size, self.width))
        elif "lm_head.weight" in tensors and not np.array_equal(
            tensors.take("lm_head.weight", target.size, self.width),
            tensors.held[_embedding(tensors, "decoder")],
        ):
            raise ValueError(
                f"{tensors.subject}: 'lm_head.weight' differs from the decoder's embedding,"
                f" although {config.subject} has tie_word_embeddings: true; set it to false if the"
                " model was trained with both matrices"
            )
        self.made["decoder.output_projection.weight"] = output
        same = (
            tied
            and self.words["encoder"] == target
            and np.array_equal(self.made["encoder.embed_tokens.weight"], own)
        )
        self.options["share_all_embeddings"] = same
        self.options["share_decoder_input_output_embed"] = tied and not same

    def _layers(self) -> None:
        width = self.width
        for side in _SIDES:
            inner = self.options[f"{side}_ffn_embed_dim"]
            for number in range(self.options[f"{side}_layers"]):
                layer = f"{side}.layers.{number}"
                for attention in ("self_attn", "encoder_attn")[: 1 + (side == "decoder")]:
                    for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
                        self._copy(f"{layer}.{attention}.{name}", width, width)
                    self._copy(f"{layer}.{attention}_layer_norm", width)
                self._copy(f"{layer}.fc1", inner, width)
                self._copy(f"{layer}.fc2", width, inner)
                self._copy(f"{layer}.final_layer_norm", width)

    def _copy(self, name: str, *shape: int) -> None:
        """Copies weight and bias of the module ``name`` from the file to the converted model, where
        they have the same names. The weight has the shape ``shape``, the bias ``shape[:1]``."""
        sizes: Dict[str, Tuple[int, ...]] = {"weight": shape, "bias": shape[:1]}
        for part, size in sizes.items():
            self.made[f"{name}.{part}"] = self.tensors.take(f"model.{name}.{part}", *size)
