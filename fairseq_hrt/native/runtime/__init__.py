"""The native engine: int8 or float32 models decoded in C, with a small Python face; without PyTorch
and fairseq. NumPy only, and for the modules of ``__all__``: setup.py builds the kernel with another
one, where NumPy need not be installed yet."""

__all__ = ["engine", "format", "library", "model_tensors", "options"]
