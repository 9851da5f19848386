"""Makes models follow conventions of other toolkits for which fairseq has no options.

For example, Marian counts positions from 0 and fairseq from 2, and the epsilons of their layer
normalisations differ. If a model were built with other conventions than its weights were trained
with, it would silently compute something else. Therefore a checkpoint stores its conventions if
they are not fairseq's, and a model that loads it must be built with the same ones.
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

# Name of the buffer in checkpoints that stores the conventions.
NOTE = "encoder.conventions"
_BIAS = "decoder.output_projection.bias"
# Epsilons are stored as integer multiples of this: half precision could not represent them.
_UNIT = 1e-12


class Conventions(NamedTuple):
    """The conventions that a model follows.

    Attributes:
        activation: name of the activation function of the feed-forward layers.
        first_position: the position for which the sinusoids of the first word are computed.
        epsilon: epsilon of the layer normalisations.
        zero_start: True if the decoder's first input is a vector of zeros, False if it is the
            embedding of ``</s>``.
    """

    activation: str
    first_position: int
    epsilon: float
    zero_start: bool

    @property
    def options(self) -> str:
        """The command-line options that build a model with these conventions, except for
        ``--marian-zero-start``."""
        return (
            f"--activation-fn {self.activation} --marian-first-position {self.first_position} "
            f"--marian-epsilon {self.epsilon:g}"
        )

    def note(self, padding_idx: int) -> Optional[Tensor]:
        """The tensor by which a checkpoint stores these conventions, LongTensor ``[4]``; None if
        they are fairseq's, which are not stored. ``padding_idx`` is the id of padding; fairseq's
        first position is one above."""
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
        """The conventions that are stored in a tensor made by :meth:`note`.

        Raises:
            ValueError: the tensor was not made by :meth:`note`.
        """
        values = note.tolist() if note.dtype == torch.long and note.shape == (4,) else [-1]
        if not (0 <= values[0] < len(ACTIVATIONS) and min(values) >= 0):
            raise ValueError(f"the checkpoint's {NOTE} is damaged: copy the checkpoint again")
        activation, first, epsilon, zero_start = values
        return cls(ACTIVATIONS[activation], first, epsilon * _UNIT, bool(zero_start))


class SinusoidsFrom(SinusoidalPositionalEmbedding):
    """fairseq's module of sinusoidal positions, except that the first word has the position
    ``first``. It has no parameters, so checkpoints do not change.

    Args:
        width: D, the size of a vector.
        padding_idx: the id of padding; the first word is in row ``padding_idx + 1`` of fairseq's
            table.
        size: the number of positions to compute now; further ones are computed when they are
            needed.
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
        """fairseq's sinusoidal vectors ``[num_embeddings, embedding_dim]`` for positions from 0,
        computed by NumPy: equal on every machine, and equal to those in a native engine's model
        that was made without PyTorch."""
        table = sinusoids(np.arange(num_embeddings), fairseq_frequencies(embedding_dim))
        return F.pad(torch.from_numpy(table), (0, embedding_dim % 2))

    def slot_table(self, count: int) -> Tensor:
        """The vectors of the first ``count`` words, ``[count, D]``."""
        self._reserve(count)
        self.weights = self.weights.to(self._float_tensor)
        return self.weights[self.offset : self.offset + count]

    def forward(self, input: Tensor, *rest: Any, **options: Any) -> Tensor:
        """The position vectors ``[B, T, D]`` of ids ``[B, T]``, zeros for padding; with an
        incremental state only the last word's ``[B, 1, D]``, as in fairseq."""
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
    """The conventions that a model's options ``cfg`` ask for; fairseq's for options that ``cfg``
    does not have. ``padding_idx`` is the id of padding.

    Raises:
        ValueError: a value is out of range.
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
    """Changes fairseq's encoder or decoder ``side``, in place, so that it follows the conventions
    in ``cfg``, except for the decoder's first input, which a decoder sets itself."""
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
        # fairseq's lookup of "swish" returns a class instead of a function. children(): to iterate
        # over layers with layer drop leaves out random ones.
        for layer in side.layers.children():
            layer.activation_fn = F.silu


def add_output_bias(cfg: ConventionsConfig, projection: nn.Linear) -> None:
    """Adds a bias of zeros to an output projection if ``--marian-output-bias`` is yes."""
    if str(cfg.marian_output_bias) == "yes":
        projection.bias = nn.Parameter(torch.zeros_like(projection.weight[:, 0]))


def require_same_conventions(
    state: Dict[str, Tensor], cfg: TransformerConfig, padding_idx: int
) -> Conventions:
    """Checks that a checkpoint's weights were trained with the conventions that a model follows.

    Args:
        state: the checkpoint's parameters; its stored conventions are replaced by the model's, in
            place.
        cfg: the model's options.
        padding_idx: the id of padding.

    Returns:
        The checkpoint's conventions. Their ``zero_start`` may differ from the model's if ``cfg``
        has no option for it; this is logged as a warning.

    Raises:
        ValueError: the conventions differ; the message names the options that make them agree.
    """
    own, note = conventions_of(cfg, padding_idx), state.pop(NOTE, None)
    own_note = own.note(padding_idx)
    if own_note is not None:
        state[NOTE] = own_note
    biased, own_bias = _BIAS in state, getattr(cfg, "marian_output_bias", None)
    same_bias = own_bias is None or biased == (str(own_bias) == "yes")
    if note is None:
        # fairseq's conventions; its activation function is not stored, so the model's is assumed.
        theirs = Conventions(
            "relu" if own.activation == "swish" else own.activation,
            padding_idx + 1,
            FAIRSEQ_EPSILON,
            False,
        )
    else:
        theirs = Conventions.read(note)
    learned = cfg.encoder.learned_pos and cfg.decoder.learned_pos
    if learned or cfg.no_token_positional_embeddings:
        # Without sinusoids the first position has no effect.
        theirs = theirs._replace(first_position=own.first_position)
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
            fix = "this architecture does not have these options; choose one that has them"
        raise ValueError(f"the checkpoint's weights were trained with {wanted}: {fix}")
    if theirs.zero_start != own.zero_start:
        logger.warning(
            "the checkpoint's decoder begins with a vector of zeros, this model's with the"
            " embedding of </s>"
        )
    return theirs


def start_self_attention(state: Dict[str, Tensor], decoder: nn.Module, name: str) -> None:
    """Replaces recurrent cells in a checkpoint's decoder by newly initialised self-attention.

    Args:
        state: the checkpoint's parameters, changed in place; without recurrent cells they stay as
            they are.
        decoder: the decoder with self-attention that will load these parameters.
        name: prefix of the decoder's parameters in the checkpoint.
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


def leave_sinusoids_out(state: Dict[str, Tensor], decoder: nn.Module, name: str) -> None:
    """Removes a table of sinusoids from a checkpoint if the decoder that loads it computes its own.

    Models of Hugging Face's Marian have such a table, with frequencies 10000^(-2i / D) instead of
    fairseq's 10000^(-i / (D / 2 - 1)). A table that was learned is kept, so that loading it raises
    an error.

    Args:
        state: the checkpoint's parameters, changed in place.
        decoder: the decoder that will load these parameters.
        name: prefix of the decoder's parameters in the checkpoint.
    """
    own = "embed_positions.weight"
    table = state.get(f"{name}.{own}")
    if table is None or own in decoder.state_dict() or not _are_sinusoids(table):
        return
    del state[f"{name}.{own}"]
    logger.warning(
        "the checkpoint's decoder has a table of sinusoids, which is left out: this model's"
        " decoder computes fairseq's instead"
    )


def _are_sinusoids(table: Tensor) -> bool:
    """Whether each row of a table ``[positions, D]`` has D / 2 sines, then the cosines of the same
    angles; rows of zeros are allowed, as before the first position."""
    half = table.size(1) // 2
    squares = table.float().square()
    circles = squares[:, :half] + squares[:, half : 2 * half]  # [positions, D / 2]
    # Half precision rounds by 5e-4.
    right = ((circles - 1).abs() < 1e-2).all(1) | (table == 0).all(1)  # [positions]
    return bool(right.all())


def _yes(value: bool) -> str:
    return "yes" if value else "no"
