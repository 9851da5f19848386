"""Transformers that write word by word: fairseq's own, and Marian's."""

from dataclasses import dataclass

from .fields import CELLS, ModelFields, later
from .record import Family


@dataclass(frozen=True, kw_only=True)
class AutoregressiveFields(ModelFields):
    """Header fields that describe Marian's decoders.

    Attributes:
        cell: how decoder layers remember earlier words: ``attention``, or ``ssru``, the simpler
            simple recurrent unit (Kim et al., 2019) in place of self-attention, whose state for an
            input x becomes c = f * c + (1 - f) * W x with f = sigmoid(W_f x + b).
        zero_start: whether the decoder's first input, ``</s>``, is embedded as zeros.
    """

    cell: str = later("attention")
    zero_start: bool = later(False)


class Autoregressive(Family):
    """Transformers that write word by word. Only the check of the header fields for Marian's
    decoders differs from the defaults of :class:`.record.Family`."""

    def check_header(self, header: AutoregressiveFields) -> None:
        header.demand(header.cell in CELLS, "cell")


FAMILY = Autoregressive(
    "autoregressive",
    "translation_autoregressive",
    tasks=("translation",),
    left_to_right=True,
    scores_by_word=True,
    several=True,
    header_fields=AutoregressiveFields,
)
