"""Decoding without PyTorch and fairseq: an int8 or float32 engine in C with a small Python face. NumPy only."""

__all__ = ["engine", "format", "library", "options", "rescoring"]
