"""Converts models of other toolkits, Marian and Hugging Face (Marian, MBart-50, M2M-100), and
published models of fairseq to bundles."""

from .converted import Wishes
from .sources import import_model

__all__ = ["Wishes", "import_model"]
