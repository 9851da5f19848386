"""How many tokens a pass guesses and checks: the modes of the paper, and the sliding frontier.

A row has n proved tokens; the pass reads the last of them and the guesses behind it, and says what comes next at each of them. A
window of q is one proved token and q - 1 guesses.
"""

from dataclasses import dataclass
from typing import Dict, List, Mapping, Optional, Sequence, Tuple

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


CANDIDATE_WIDTHS: List[int] = [1, 2, 3, 4, 5, 6, 8]


class WidthChooser:
    """Chooses the frontier's width for each batch: the least time for a proved token.

    A pass of width w costs t(w) seconds, proves a(w) tokens of each row, and guesses may cost a draft: t(w) / a(w) + d seconds for
    each token of a row. Width 1 needs no guesses: t(1). All of it is learnt from the batches themselves, none is decoded for
    the sake of measuring: the first is decoded one by one, then wider and wider windows are tried as long as they can still
    be better than the best one known. Once they lose, decoding goes on one by one and drafts are no longer made.

    Args:
        widths: that may be chosen.
        trials: batches with a width before it is judged.
    """

    # One batch in so many tries the next best width again: the texts may have become easier, or the machine less busy.
    EXPLORE = 64
    # A width that is so little slower costs next to nothing to try: one batch in so many.
    CLOSE, EXPLORE_CLOSE = 1.25, 8
    # What is gained has to be more than noise.
    MARGIN = 0.95
    # Share of what was learnt that the next batch with the same width leaves.
    KEEP = 0.9

    def __init__(self, widths: Sequence[int] = tuple(CANDIDATE_WIDTHS), *, trials: int = 2) -> None:
        self.widths, self.trials = sorted(widths), trials
        self.tried: Dict[int, int] = {}
        # By width: row passes, tokens they proved, and how many proved the whole window.
        self.seen: Dict[int, Tuple[float, float, float]] = {}
        # By batch size: seconds of drafts, and tokens of a row that they were for.
        self.drafts: Dict[int, Tuple[float, float]] = {}
        self.batches = 0

    def choose(self, costs: Mapping[int, float], rows: int = 1) -> int:
        """The width for the next batch.

        Args:
            costs: t(w) by w, of the widths that were measured for batches of this size.
            rows: size of the batch, as :meth:`learn` is told it.
        """
        self.batches += 1
        if 1 not in costs:
            return 1
        draft = self.draft(rows)
        times = {width: costs[width] / self.proved(width) + draft for width in self.widths
                 if width > 1 and width in costs and self.tried.get(width, 0) >= self.trials}  # fmt: skip
        times[1] = costs[1]
        least = min(times.values())
        hopeful = {}
        for width in (width for width in self.widths if width > 1):
            # A wider pass costs no less than a narrower one, and never proves more than its width.
            cost = costs.get(width) or max(seconds for known, seconds in costs.items() if known <= width)
            hopeful[width] = cost / self.most_proved(width) + draft
        fresh = [width for width, time in hopeful.items() if width not in times and time < self.MARGIN * least]
        if fresh:
            # What a narrow window brought tells whether a wider one is worth a batch.
            return min(fresh)
        best = min(times, key=lambda width: (times[width], width))
        others = {width: time for width, time in (times if len(times) > 1 else hopeful).items() if width != best
                  and (width == 1 or costs[1] * width * self.MARGIN > costs.get(width, 0.0))}  # fmt: skip
        if others:
            second = min(others, key=lambda width: (others[width], width))
            close = others[second] < self.CLOSE * times[best]
            if self.batches % (self.EXPLORE_CLOSE if close else self.EXPLORE) == 0:
                return second
        return best

    def learn(
        self, width: int, *, proved: int, passes: int, whole: int, rows: int = 1, length: float = 1.0, draft: float = 0.0
    ) -> None:
        """What a batch brought.

        Args:
            width: of its windows.
            proved: tokens, of all rows.
            passes: counted row by row.
            whole: passes that proved all of their window.
            rows: size of the batch.
            length: mean tokens of a row.
            draft: seconds that the guesses of the batch cost.
        """
        if width == 1:
            return
        self.tried[width] = self.tried.get(width, 0) + 1
        own, won, all_won = self.seen.get(width, (0.0, 0.0, 0.0))
        self.seen[width] = (self.KEEP * own + passes, self.KEEP * won + proved, self.KEEP * all_won + whole)
        seconds, tokens = self.drafts.get(rows, (0.0, 0.0))
        self.drafts[rows] = (self.KEEP * seconds + draft, self.KEEP * tokens + length)

    def proved(self, width: int) -> float:
        """a(w) of a width that was tried."""
        passes, proved, _ = self.seen[width]
        return proved / max(passes, 1.0)

    def most_proved(self, width: int) -> float:
        """The most that a(w) can be: from narrower windows it is known how often a pass proves more than those hold."""
        most = float(width)
        for known, (passes, proved, whole) in self.seen.items():
            if known <= width and self.tried[known] >= self.trials:
                most = min(most, (proved + (width - known) * whole) / max(passes, 1.0))
        return max(most, 1.0)

    def draft(self, rows: int) -> float:
        """d, seconds of drafts for each token of a row; 0 where no draft was made yet."""
        seconds, tokens = self.drafts.get(rows, (0.0, 1.0))
        return seconds / max(tokens, 1e-9)
