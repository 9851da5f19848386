"""Hybrid-regressive translation (Wang et al., "Hybrid-Regressive Neural Machine Translation";
RoyalFlush, WMT 2022).

Stage I decodes every K-th token autoregressively; stage II fills in the others in one parallel pass
of the same decoder. A sentence of N words takes about N / K + 1 decoder calls instead of N + 1. The
decoder is trained for both stages and for plain autoregressive decoding, with a curriculum from the
latter to the former.
"""

from . import criterion as criterion
from . import mask_predict as mask_predict
from . import model as model
from . import task as task
