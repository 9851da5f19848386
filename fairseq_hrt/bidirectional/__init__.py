"""Interleaved bidirectional decoding (Zhang, Titov, Sennrich, "Fast Interleaved Bidirectional
Sequence Generation").

The target is written from both ends at once: y_1, y_n, y_2, y_(n-1), … A decoder step writes c
words in each of h directions, z = h * c words, so that a sentence takes ceil((n + 1) / z) steps.
(h, c) is (1, 1) for the ordinary Transformer, (1, c) for semi-autoregressive decoding, (2, 1) and
(2, c) for IBDecoder and (4, 1) for IMDecoder. They share one model and differ in the order,
positions and mask that :mod:`.slots` computes.
"""

from . import criterion as criterion
from . import model as model
from . import task as task
