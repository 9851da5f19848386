"""The native engine: decodes int8 or float32 models in C, without PyTorch and fairseq. The modules
of ``__all__`` may use NumPy; ``build`` may not, since setup.py runs it before NumPy is
installed."""

__all__ = ["engine", "format", "library", "model_tensors", "options"]
