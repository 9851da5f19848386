"""Connectionist temporal classification (Graves et al., 2006) for translation (Libovický and Helcl,
2018).

In one parallel pass the decoder writes a word or a blank at each of λ positions per source token.
Equal neighbours and blanks are left out of the text. Training sums over all such outputs of a
target, or rewards expected n-grams (Shao and Feng, 2022); decoding takes the best output, or
searches for the most probable text.
"""

from . import criterion as criterion
from . import model as model
from . import task as task
