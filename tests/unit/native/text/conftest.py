"""Fixtures of the tests of text."""

from imported_models import sentencepiece_model

__all__ = ["sentencepiece_model"]
