"""Parallel decoding of autoregressive checkpoints (Santilli et al., 2023), without any training and
without any loss.

Greedy decoding is the triangular system y_i = argmax p(. | y_<i, x). A guess of several tokens is
put through the decoder at once; guesses that the model confirms are proved right, and
the first disagreement is corrected by the same pass. So every pass proves at least one token, often
several, and the result is that of greedy decoding, token by token.
"""

from . import task as task
