"""Hybrid-regressive translation (Wang et al., "Hybrid-Regressive Neural Machine Translation";
RoyalFlush, WMT 2022).

Every K-th token is decoded autoregressively, from left to right; the tokens between them follow in
one parallel pass of the same decoder. A sentence of N words takes about N / K + 1 decoder calls
instead of N + 1, and beams, batches and the autoregressive order of the skeleton keep the quality
of an autoregressive model. One decoder learns both modes (and plain autoregressive decoding) in a
curriculum from the easy tasks to the hard ones.
"""

from . import criterion as criterion
from . import mask_predict as mask_predict
from . import model as model
from . import task as task
