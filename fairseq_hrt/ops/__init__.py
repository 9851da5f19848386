"""Dynamic programs over directed acyclic graphs of vertices and over the positions of CTC, on plain
tensors; torch only.

Shapes of graphs: B batch, L vertices (padded), T target tokens with ``<s>`` and ``</s>`` (padded),
V vocabulary. ``links[b, u, v]`` is log P(v | u), ``match[b, i, v]`` is log P(y_i | v); -inf is
impossible. Vertex 0 emits ``<s>`` and the last valid vertex ``</s>``; a path leads from the first
to the last. Nothing outside ``target_lengths`` and ``vertex_lengths`` is read.
"""

from .checks import PostponedChecks, postponed_checks
from .ctc import ExpectedNgrams, ctc_best_alignment, ctc_ngrams
from .dag_likelihood import dag_best_alignment, dag_log_likelihood
from .fixed_shapes import FixedPaths, between_words, fixed_viterbi
from .fuzzy import FuzzyAlignment, fuzzy_alignment
from .gather import CHUNK, gather_log_probs, gather_with_largest, row_blocks
from .products import at_least_float32
from .repeats import LEAST_MASS, best_printing_path, without_repeats
from .viterbi import ViterbiPath, joint_viterbi

__all__ = [
    "CHUNK",
    "LEAST_MASS",
    "ExpectedNgrams",
    "FixedPaths",
    "FuzzyAlignment",
    "PostponedChecks",
    "ViterbiPath",
    "at_least_float32",
    "best_printing_path",
    "between_words",
    "ctc_best_alignment",
    "ctc_ngrams",
    "dag_best_alignment",
    "dag_log_likelihood",
    "fixed_viterbi",
    "fuzzy_alignment",
    "gather_log_probs",
    "gather_with_largest",
    "joint_viterbi",
    "postponed_checks",
    "row_blocks",
    "without_repeats",
]
