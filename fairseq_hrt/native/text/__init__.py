"""Raw text on both sides of a model: normalised, tokenised, in subwords, and back. NumPy, PyTorch
and fairseq are not needed."""

__all__ = ["dictionary", "moses_rules", "pipeline", "replacement"]
