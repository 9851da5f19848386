"""Bundles: folders with everything that translates raw text; how they are made, described and
loaded, and the translator."""

__all__ = [
    "asynchronous",
    "batching",
    "bundle",
    "decoder",
    "description",
    "native_bundle",
    "native_decoder",
    "pretrained",
    "shortlist",
    "translation",
    "translator",
]
