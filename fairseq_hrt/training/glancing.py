"""Two parts of glancing training, which shows some target tokens to the decoder (Qian et al.,
2021): the schedule of the share that is shown, and two passes with the same dropout."""

import re
from contextlib import contextmanager
from typing import Iterator, List, Tuple

import torch


class GlanceSchedule:
    """The share tau, which controls how many target tokens are shown, as a function of the update:
    linear between the given points, constant before the first and after the last.

    Args:
        text: points SHARE@UPDATE separated by colons, e.g. ``0.5:0.1@200k``; without ``@`` the
            update is 0, ``k`` means thousand.
        flag: the name of the option, for messages.

    Raises:
        ValueError: the text has another format, a share is outside [0, 1], or the updates do not
            increase.
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
                    f"{flag} {text!r}: shares must lie in [0, 1], and each update must"
                    " be later than the one before"
                )
            self.knots.append((update, share))

    def at(self, update: int) -> float:
        """The share tau at an update."""
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
    """A context that restores PyTorch's random state at its end, so that the code after it draws
    the same random numbers as the code within, e.g. the same dropout masks."""
    state = torch.get_rng_state()
    on_gpu = torch.cuda.get_rng_state(device) if device.type == "cuda" else None
    try:
        yield
    finally:
        torch.set_rng_state(state)
        if on_gpu is not None:
            torch.cuda.set_rng_state(on_gpu, device)
