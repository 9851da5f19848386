"""Bundles: folders with everything that is needed to translate raw text. The modules write,
describe and load bundles, and translate with them."""

__all__ = [
    "asynchronous",
    "batching",
    "bundle",
    "decoder",
    "description",
    "hypothesis_texts",
    "native_bundle",
    "native_decoder",
    "pretrained",
    "shortlist",
    "translation",
    "translator",
]
