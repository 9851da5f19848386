"""Conventions in which models of other toolkits differ from fairseq's, beyond what fairseq has
options for.

Marian counts positions from 0 and fairseq from 2, the epsilons of their layer normalisations
differ, and so on. A model with other conventions than its weights were trained with computes
something else without an error. So conventions that are not fairseq's are noted beside the weights,
and who starts from them must be built with the same.
"""

import logging
from typing import Any, Dict, NamedTuple, Optional

import numpy as np
import torch
import torch.nn.functional as F
from fairseq.models.transformer import TransformerConfig
from fairseq.modules import LayerNorm, SinusoidalPositionalEmbedding
from torch import Tensor, nn

from ..native.runtime.sinusoids import fairseq_frequencies, sinusoids
from .config import ACTIVATIONS, FAIRSEQ_EPSILON, ConventionsConfig

logger = logging.getLogger(__name__)

# Beside the weights, of the encoder as every model of translation has one.
NOTE = "encoder.conventions"
_BIAS = "decoder.output_projection.bias"
# Epsilons are noted as integers: half precision has none as small.
_UNIT = 1e-12


class Conventions(NamedTuple):
    """How a model computes with its weights.

    Attributes:
        activation: of the feed-forward layers.
        first_position: of the first word.
        epsilon: of the layer normalisations.
        zero_start: the decoder's first input is a vector of zeros.
    """

    activation: str
    first_position: int
    epsilon: float
    zero_start: bool

    @property
    def options(self) -> str:
        """The options that give them, apart from the start."""
        return (
            f"--activation-fn {self.activation} --marian-first-position {self.first_position} "
            f"--marian-epsilon {self.epsilon:g}"
        )

    def note(self, padding_idx: int) -> Optional[Tensor]:
        """What is kept beside the weights, LongTensor ``[4]``; None where all is as fairseq has
        it."""
        fairseqs = (self.first_position, self.epsilon, self.zero_start) == (
            padding_idx + 1,
            FAIRSEQ_EPSILON,
            False,
        )
        if fairseqs and self.activation != "swish":
            return None
        values = (
            ACTIVATIONS.index(self.activation),
            self.first_position,
            round(self.epsilon / _UNIT),
            self.zero_start,
        )
        return torch.tensor(values)

    @classmethod
    def read(cls, note: Tensor) -> "Conventions":
        """From what is kept beside the weights.

        Raises:
            ValueError: it is nothing that :meth:`note` gives.
        """
        values = note.tolist() if note.dtype == torch.long and note.shape == (4,) else [-1]
        if not (0 <= values[0] < len(ACTIVATIONS) and min(values) >= 0):
            raise ValueError(f"the checkpoint's {NOTE} is damaged")
        activation, first, epsilon, zero_start = values
        return cls(ACTIVATIONS[activation], first, epsilon * _UNIT, bool(zero_start))


class SinusoidsFrom(SinusoidalPositionalEmbedding):
    """Sinusoids of which the first word gets that of a given position; in checkpoints the same as
    fairseq's sinusoidal module.

    Args:
        width: D.
        padding_idx: fairseq's offset in the table.
        size: positions to be computed at once; more are computed when they are needed.
        first: position of the first word.
    """

    weights: Tensor

    def __init__(self, width: int, padding_idx: int, *, size: int, first: int) -> None:
        super().__init__(width, padding_idx, init_size=padding_idx + 1)
        self.first, self.offset = first, padding_idx + 1
        self._reserve(size)

    @staticmethod
    def get_embedding(
        num_embeddings: int, embedding_dim: int, padding_idx: Optional[int] = None
    ) -> Tensor:
        """fairseq's vectors ``[num_embeddings, embedding_dim]``, the same on every machine and in
        the native engine's model that is made without PyTorch."""
        table = sinusoids(np.arange(num_embeddings), fairseq_frequencies(embedding_dim))
        return F.pad(torch.from_numpy(table), (0, embedding_dim % 2))

    def slot_table(self, count: int) -> Tensor:
        """Vectors ``[count, D]`` of the first words."""
        self._reserve(count)
        self.weights = self.weights.to(self._float_tensor)
        return self.weights[self.offset : self.offset + count]

    def forward(self, input: Tensor, *rest: Any, **options: Any) -> Tensor:
        """As fairseq's: vectors ``[B, T, D]`` of ids ``[B, T]``, zeros for padding; with an
        incremental state the last one."""
        self._reserve(input.size(1))
        vectors: Tensor = super().forward(input, *rest, **options)
        return vectors

    def _reserve(self, count: int) -> None:
        if self.weights.size(0) < self.offset + count:
            table = self.get_embedding(
                self.first + max(count, 2 * self.weights.size(0)), self.embedding_dim
            )
            self.weights = torch.cat(
                [table.new_zeros(self.offset, self.embedding_dim), table[self.first :]]
            )


def conventions_of(cfg: TransformerConfig, padding_idx: int) -> Conventions:
    """The conventions in a model's options.

    Raises:
        ValueError: a value that no model can have.
    """
    first, epsilon = (
        getattr(cfg, "marian_first_position", None),
        getattr(cfg, "marian_epsilon", FAIRSEQ_EPSILON),
    )
    if first is not None and not 0 <= first < 10_000:
        raise ValueError(f"--marian-first-position {first} must be at least 0 and below 10000")
    if not 0 < epsilon < 1:
        raise ValueError(f"--marian-epsilon {epsilon} must be above 0 and below 1")
    return Conventions(
        str(cfg.activation_fn),
        padding_idx + 1 if first is None else first,
        epsilon,
        str(getattr(cfg, "marian_zero_start", "no")) == "yes",
    )


def follow_conventions(cfg: ConventionsConfig, side: Any) -> None:
    """Makes an encoder or a decoder of fairseq's compute as its model's options want it.

    Args:
        side: the module.
    """
    wanted, positions = conventions_of(cfg, side.padding_idx), side.embed_positions
    offset = side.padding_idx + 1
    if type(positions) is SinusoidalPositionalEmbedding and wanted.first_position != offset:
        size = positions.weights.size(0) - offset
        side.embed_positions = SinusoidsFrom(
            positions.embedding_dim, side.padding_idx, size=size, first=wanted.first_position
        )
    for module in side.modules():
        if isinstance(module, (nn.LayerNorm, type(LayerNorm(1)))):
            module.eps = wanted.epsilon
    if wanted.activation == "swish":
        for layer in side.layers:
            # By this name fairseq finds a class, whose instances it would make of the
            # vectors.
            layer.activation_fn = F.silu


def add_output_bias(cfg: ConventionsConfig, projection: nn.Linear) -> None:
    """Gives an output projection the bias that its model's options ask for."""
    if str(cfg.marian_output_bias) == "yes":
        projection.bias = nn.Parameter(torch.zeros_like(projection.weight[:, 0]))


def require_same_conventions(
    state: Dict[str, Tensor], cfg: TransformerConfig, padding_idx: int
) -> Conventions:
    """Refuses weights that were trained with other conventions than a model is built with; the note
    becomes the model's own.

    Args:
        state: the checkpoint's, changed in place.
        cfg: options of the model.

    Returns:
        those of the checkpoint; its decoder's start may be another than the model's, which has to
        get used to its own.

    Raises:
        ValueError: naming the options that make them agree.
    """
    own, note = conventions_of(cfg, padding_idx), state.pop(NOTE, None)
    own_note = own.note(padding_idx)
    if own_note is not None:
        state[NOTE] = own_note
    biased, own_bias = _BIAS in state, getattr(cfg, "marian_output_bias", None)
    same_bias = own_bias is None or biased == (str(own_bias) == "yes")
    if note is None:
        # As fairseq has it; which of fairseq's activations is not said.
        theirs = Conventions(
            "relu" if own.activation == "swish" else own.activation,
            padding_idx + 1,
            FAIRSEQ_EPSILON,
            False,
        )
    else:
        theirs = Conventions.read(note)
    can_start_from_zeros = hasattr(cfg, "marian_zero_start")
    if (
        theirs.options != own.options
        or not same_bias
        or (can_start_from_zeros and theirs.zero_start != own.zero_start)
    ):
        wanted = f"{theirs.options} --marian-output-bias {_yes(biased)}"
        if can_start_from_zeros:
            wanted += f" --marian-zero-start {_yes(theirs.zero_start)}"
        fix = "build this model with the same options"
        if not isinstance(cfg, ConventionsConfig):
            fix = "this architecture does not have these options"
        raise ValueError(f"the checkpoint's weights were trained with {wanted}: {fix}")
    if theirs.zero_start != own.zero_start:
        logger.warning(
            "the checkpoint's decoder begins with a vector of zeros, this model's with the"
            " embedding of </s>"
        )
    return theirs


def start_self_attention(state: Dict[str, Tensor], decoder: nn.Module, name: str) -> None:
    """Lets a decoder with self-attention start from one with recurrent cells; everything else is
    taken over.

    Args:
        state: the checkpoint's, changed in place.
        decoder: the module that is going to load it.
        name: of the decoder in the checkpoint.
    """
    cells = [key for key in state if key.startswith(f"{name}.layers.") and ".cell." in key]
    if not cells:
        return
    for key in cells:
        del state[key]
    for key, value in decoder.state_dict().items():
        if key.startswith("layers.") and ".self_attn." in key and "_proj." in key:
            state[f"{name}.{key}"] = value.detach().clone()
    logger.warning(
        "the checkpoint's decoder has recurrent cells (SSRU): self-attention starts anew; the"
        " encoder, embeddings, attention to the source, feed-forward layers and normalisations are"
        " taken over"
    )


def _yes(value: bool) -> str:
    return "yes" if value else "no"
