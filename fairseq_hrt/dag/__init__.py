"""Directed acyclic Transformer (Huang et al., 2022) and fuzzy n-gram alignment (FA-DAT, Ma et al.,
2023).

The decoder writes, in one parallel pass, a graph of L vertices instead of a sentence: every vertex
has a distribution over words and one over its successors, so that different translations of the
same source can stand beside each other. A target's likelihood is a sum over all paths from the
first to the last vertex (:mod:`..ops`); decoding follows one of them. The fuzzy loss rewards
n-grams that the graph's texts share with the target, wherever they stand.
"""

from . import criterion as criterion
from . import model as model
from . import task as task
