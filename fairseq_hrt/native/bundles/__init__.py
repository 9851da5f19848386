"""Bundles: folders with everything that translates raw text; how they are made, described, loaded
and exported, and the translator."""

__all__ = [
    "bundle",
    "ctranslate2_model",
    "decoder",
    "description",
    "examples",
    "lexical_table",
    "native_bundle",
    "native_decoder",
    "packing",
    "pretrained",
    "runtime_bundle",
    "shortlist",
    "torch_decoder",
    "translation",
    "translator",
]
