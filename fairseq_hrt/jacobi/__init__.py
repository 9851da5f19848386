"""Parallel decoding of autoregressive checkpoints (Santilli et al., 2023), without any training and
without any loss.

Greedy decoding is the triangular system y_i = argmax p(. | y_<i, x). A guess of several tokens is
put through the decoder at once. A token is verified when it is known to be the token of greedy
decoding: a pass verifies all guesses up to the first one that the model does not predict, and
replaces that one by the prediction. So every pass verifies at least one token, often several, and
the result is that of greedy decoding, token by token.
"""

from . import task as task
