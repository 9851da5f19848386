"""What both engines do with the results of decoding: hypotheses, rescoring, removal of repeated
n-grams, graphs as plain data. Needs no PyTorch."""

from .errors import NumericalError
from .graphs import describe_graph
from .hypothesis import Graph, Hypothesis, best_first
from .repeats import collapse_repeats
from .rescoring import Rescorer, Scorer, require_candidates

__all__ = [
    "Graph",
    "Hypothesis",
    "NumericalError",
    "Rescorer",
    "Scorer",
    "best_first",
    "collapse_repeats",
    "describe_graph",
    "require_candidates",
]
