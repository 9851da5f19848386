"""The number of tokens that a pass (a call of the decoder) reads and checks: the paper's modes, and
the sliding frontier.

A sentence has n verified tokens, known to be those of greedy search. A pass reads a window of q
tokens, the last verified token and q - 1 guesses after it, and predicts the next token after each
of them.
"""

from dataclasses import dataclass
from typing import Optional

# Default window q of the frontier.
WIDTH = 3


@dataclass(frozen=True)
class WindowPlan:
    """The mode of decoding and its sizes.

    Attributes:
        mode: frontier (a sliding window), pj (the whole sentence), pgj (block by block) or hgj
            (blocks at first, then word by word); see ``--jacobi-mode``.
        block: b, the tokens of a block in the modes pgj and hgj.
        width: w, the most tokens that a pass reads in the mode frontier.
        prefix: m, the number of tokens after which the mode hgj decodes word by word; None: never.
    """

    mode: str
    block: int = 3
    width: int = WIDTH
    prefix: Optional[int] = None

    def size(self, verified: int, limit: int) -> int:
        """q, the number of tokens that the next pass reads for a sentence; the pass verifies at
        most as many.

        Args:
            verified: the number of tokens verified so far.
            limit: the most words that the translation may have, without ``</s>``.
        """
        left = limit + 1 - verified
        if self.mode == "pj":
            return left
        if self.mode == "frontier":
            return min(self.width, left)
        if self.mode == "hgj" and self.prefix is not None:
            if verified >= self.prefix:
                return 1
            left = min(left, self.prefix - verified)
        return min(self.block - verified % self.block, left)

    def keeps_answers(self, verified: int) -> bool:
        """Whether the next pass may use as guesses what the last pass predicted after a wrong
        guess. False where a new block begins, for which nothing has been predicted. ``verified`` is
        the number of tokens verified so far."""
        return self.mode in ("frontier", "pj") or verified % self.block != 0
