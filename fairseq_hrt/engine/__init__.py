"""One Transformer of fairseq, decoded with cached steps; what all families and the autoregressive baseline stand on.

Shape letters of the whole package: B sentences, N beams, R = B * N rows, q new tokens of a step, T cached tokens,
S source tokens, L vertices or stage-II positions, V vocabulary, D model width, H heads, d = D / H, K chunk size.
"""

from .cache import DecoderState, Memory
from .counters import GenerationCounters
from .ensemble import EngineEnsemble, reorder
from .layers import FairseqModule, UnsupportedModelError
from .precision import at_least_float32, follow_precision, log_mean, log_softmax, on_device
from .relative_positions import relative_index
from .transformer import TransformerEngine

__all__ = [
    "DecoderState",
    "EngineEnsemble",
    "FairseqModule",
    "GenerationCounters",
    "Memory",
    "TransformerEngine",
    "UnsupportedModelError",
    "at_least_float32",
    "follow_precision",
    "log_mean",
    "log_softmax",
    "on_device",
    "relative_index",
    "reorder",
]
