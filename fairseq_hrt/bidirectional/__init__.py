"""Interleaved bidirectional decoding (Zhang, Titov, Sennrich, "Fast Interleaved Bidirectional
Sequence Generation").

The target is written from both ends at once: y_1, y_n, y_2, y_(n-1), … One decoder step emits a
word of each of h directions, and c of them a direction where it is semi-autoregressive: z = h * c
words a step, ceil((n + 1) / z) steps. Order, positions and mask are data (:mod:`.slots`), so that
the ordinary Transformer (1, 1), semi-autoregressive decoding (1, c), IBDecoder (2, 1) and (2, c),
and the multi-directional IMDecoder (4, 1) are one model.
"""

from . import criterion as criterion
from . import model as model
from . import task as task
