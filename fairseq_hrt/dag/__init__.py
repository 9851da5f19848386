"""Directed acyclic Transformer (Huang et al., 2022) and fuzzy n-gram alignment (FA-DAT, Ma et al.,
2023).

In one parallel pass the decoder writes a graph of L vertices instead of a sentence. Each vertex has
a distribution over words and one over its successors, so that one graph holds several translations.
The likelihood of a target is a sum over all paths from the first to the last vertex (:mod:`..ops`);
decoding chooses one path or text. The fuzzy loss rewards n-grams that the graph's texts share with
the target, at whatever position.
"""

from . import criterion as criterion
from . import model as model
from . import task as task
