"""How many tokens a pass guesses and checks: the modes of the paper, and the sliding frontier.

A row has n proved tokens; the pass reads the last of them and the guesses behind it, and says what comes next at each of them. A
window of q is one proved token and q - 1 guesses.
"""

from dataclasses import dataclass
from typing import Dict, List, Optional

MODES = ("frontier", "hgj", "pgj", "pj")


@dataclass(frozen=True)
class WindowPlan:
    """The mode and its sizes.

    Attributes:
        mode: one of MODES.
        block: b of pgj and hgj.
        width: w of the frontier.
        prefix: m of hgj; None: no end.
    """

    mode: str
    block: int = 3
    width: int = 1
    prefix: Optional[int] = None

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise ValueError(f"--jacobi-mode {self.mode}: choose one of {', '.join(MODES)}")
        for name, value in (("block-size", self.block), ("window", self.width), ("prefix-length", self.prefix)):
            if value is not None and value < (0 if name == "prefix-length" else 1):
                raise ValueError(f"--jacobi-{name} {value} must be at least {0 if name == 'prefix-length' else 1}")

    def size(self, proved: int, limit: int) -> int:
        """Tokens that a pass settles at most: q for a row with ``proved`` tokens and at most ``limit`` words and ``</s>``."""
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
        """Whether what the pass said behind the first wrong guess is the next guess; a new block begins with fillers."""
        return self.mode in ("frontier", "pj") or proved % self.block != 0


class WidthChooser:
    """Chooses the frontier's width by proved tokens for the time of a pass.

    Every width is tried on whole batches: how many guesses come true depends on the width. What is known of the machine is
    the cost t(q) of a pass of q tokens for each row.

    Args:
        trials: batches with each width before the best one is kept; the next best is tried again now and then.
    """

    # One batch in so many tries another width than the best.
    EXPLORE = 64

    def __init__(self, *, trials: int = 2) -> None:
        self.trials = trials
        self.proved: Dict[int, float] = {}
        self.passes: Dict[int, float] = {}
        self.tried: Dict[int, int] = {}
        self.batches = 0

    def choose(self, costs: Dict[int, float]) -> int:
        """The width for the next batch.

        Args:
            costs: t(q) by q, with t(1) among them.
        """
        self.batches += 1
        # Wider is never better than if every guess came true.
        hopeful = [width for width in costs if width * costs[1] > costs[width] * 1.05 or width == 1]
        fresh = [width for width in hopeful if self.tried.get(width, 0) < self.trials and width > 1]
        if fresh:
            return min(fresh, key=lambda width: (self.tried.get(width, 0), width))
        ranked = sorted(hopeful, key=lambda width: -self.rate(width, costs))
        if self.batches % self.EXPLORE == 0 and len(ranked) > 1:
            return ranked[1]
        return ranked[0]

    def rate(self, width: int, costs: Dict[int, float]) -> float:
        """Proved tokens a second; one by one, every pass proves one."""
        per_pass = 1.0 if width == 1 else self.proved.get(width, 0.0) / max(self.passes.get(width, 0.0), 1.0)
        return per_pass / costs[width]

    def learn(self, width: int, proved: int, passes: int) -> None:
        """A batch of this width proved so many tokens in so many passes, counted row by row."""
        self.tried[width] = self.tried.get(width, 0) + 1
        # Old texts are forgotten slowly: the next ones may be harder.
        for table, value in ((self.proved, proved), (self.passes, passes)):
            table[width] = 0.95 * table.get(width, 0.0) + value


CANDIDATE_WIDTHS: List[int] = [1, 2, 3, 4, 5, 6, 8]
