"""The fixtures of imported models."""

from imported_models import marian_folder, sentencepiece_model

__all__ = ["marian_folder", "sentencepiece_model"]
