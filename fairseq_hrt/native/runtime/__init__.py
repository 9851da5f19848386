"""The native engine: decodes int8 or float32 models in C, without PyTorch and fairseq. Modules may
use NumPy, except ``build``, which setup.py runs before NumPy is installed."""

__all__ = ["engine", "format", "library", "model_tensors", "options"]
