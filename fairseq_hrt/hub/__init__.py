"""Trained models as things that translate raw text: bundles, the text on both sides of a model, and the Python interface."""

__all__ = [
    "averaging",
    "bundle",
    "ctranslate2_model",
    "description",
    "dictionary",
    "distill",
    "examples",
    "lexical_table",
    "native_decoder",
    "pretrained",
    "resume",
    "runtime_bundle",
    "shortlist",
    "text",
    "torch_decoder",
    "translation",
    "translator",
]
