"""How many tokens a pass guesses and checks: the modes of the paper, and the sliding frontier.

A row has n proved tokens; the pass reads the last of them and the guesses behind it, and finds what
comes next at each of them. A window of q is one proved token and q - 1 guesses.
"""

from dataclasses import dataclass
from typing import Optional

# Words that the frontier guesses and checks at a time, where nothing is said.
WIDTH = 3


@dataclass(frozen=True)
class WindowPlan:
    """The mode and its sizes.

    Attributes:
        mode: see ``--jacobi-mode``.
        block: b of pgj and hgj.
        width: w of the frontier.
        prefix: m of hgj; None: no end.
    """

    mode: str
    block: int = 3
    width: int = WIDTH
    prefix: Optional[int] = None

    def size(self, proved: int, limit: int) -> int:
        """Tokens that a pass settles at most: q for a row with ``proved`` tokens and at most
        ``limit`` words and ``</s>``."""
        left = limit + 1 - proved
        if self.mode == "pj":
            return left
        if self.mode == "frontier":
            return min(self.width, left)
        if self.mode == "hgj" and self.prefix is not None:
            if proved >= self.prefix:
                return 1
            left = min(left, self.prefix - proved)
        return min(self.block - proved % self.block, left)

    def keeps_answers(self, proved: int) -> bool:
        """Whether what the pass said behind the first wrong guess is the next guess; a new block
        begins with fillers."""
        return self.mode in ("frontier", "pj") or proved % self.block != 0
