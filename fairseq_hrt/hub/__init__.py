"""Trained models as things that translate raw text: bundles, the text on both sides of a model, and the Python interface."""

__all__ = [
    "averaging",
    "bundle",
    "ctranslate2_model",
    "dictionary",
    "distill",
    "lexical_table",
    "pretrained",
    "resume",
    "runtime_bundle",
    "runtime_model",
    "runtime_translator",
    "shortlist",
    "text",
    "translation",
    "translator",
]
