"""What trainings share that show some target tokens to the decoder (Qian et al., 2021): how many in
which update, and two passes with the same dropout."""

import re
from contextlib import contextmanager
from typing import Iterator, List, Tuple

import torch


class GlanceSchedule:
    """The share tau as a function of the update: linear between knots, constant outside them.

    Args:
        text: ``0.5:0.1@200k``; a knot without ``@`` is at update 0, ``k`` means thousand.
        flag: the option, for messages.

    Raises:
        ValueError: another format, shares outside [0, 1], or updates that do not increase.
    """

    def __init__(self, text: str, flag: str) -> None:
        self.knots: List[Tuple[int, float]] = []
        for part in str(text).split(":"):
            found = re.fullmatch(r"([0-9.]+)(?:@([0-9.]+)(k?))?", part.strip())
            try:
                if found is None:
                    raise ValueError(part)
                share = float(found[1])
                update = int(float(found[2] or 0) * (1000 if found[3] else 1))
            except (TypeError, ValueError):
                raise ValueError(
                    f"{flag} {text!r}: {part!r} is not SHARE or SHARE@UPDATE, as in 0.5:0.1@200k"
                ) from None
            if not 0 <= share <= 1 or (self.knots and update <= self.knots[-1][0]):
                raise ValueError(
                    f"{flag} {text!r}: shares must lie in [0, 1] and each update"
                    " behind the one before"
                )
            self.knots.append((update, share))

    def at(self, update: int) -> float:
        """The share tau in an update."""
        before = self.knots[0]
        for knot in self.knots:
            if update < knot[0]:
                if knot is before:
                    break
                done = (update - before[0]) / (knot[0] - before[0])
                return before[1] + done * (knot[1] - before[1])
            before = knot
        return before[1]


@contextmanager
def same_random_numbers_afterwards(device: torch.device) -> Iterator[None]:
    """Restores the random state at the end of the block, so that the code behind it draws the same
    numbers, e.g. the same dropout masks."""
    state = torch.get_rng_state()
    on_gpu = torch.cuda.get_rng_state(device) if device.type == "cuda" else None
    try:
        yield
    finally:
        torch.set_rng_state(state)
        if on_gpu is not None:
            torch.cuda.set_rng_state(on_gpu, device)
