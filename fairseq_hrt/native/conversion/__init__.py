"""Models of other toolkits as bundles: Marian's, Hugging Face's Marian, MBart-50 and M2M-100, and
what fairseq published."""

from .converted import Wishes
from .sources import import_model

__all__ = ["Wishes", "import_model"]
