"""Converts models of other origin to bundles: models of Marian, of Hugging Face (Marian, MBart-50,
M2M-100), and published models of fairseq."""

from .converted import Wishes
from .sources import import_model

__all__ = ["Wishes", "import_model"]
