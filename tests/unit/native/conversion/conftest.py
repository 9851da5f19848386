"""The fixtures of imported models."""

from imported_models import hugging_face_folder, marian_folder, sentencepiece_model

__all__ = ["hugging_face_folder", "marian_folder", "sentencepiece_model"]
