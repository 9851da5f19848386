"""Converts raw text to subwords and back: normalisation, tokenisation, subwords, markup, sentences.
Needs neither NumPy nor PyTorch nor fairseq."""

__all__ = ["dictionary", "moses_rules", "pipeline", "replacement"]
