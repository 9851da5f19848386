"""The curriculum: how large a share of the sentences is trained with chunks."""

import logging
from typing import Optional, Sequence, Tuple

logger = logging.getLogger(__name__)


class Curriculum:
    """The share of sentences trained with chunks in update t: p_k = (t / T) ** lambda (HRT, Eq. 5),
    at most 1.

    Args:
        steps: T, the curriculum's length in updates; None: the length that the training was begun
            with, which is ``max_update`` for a new training.
        power: lambda; 0 switches the curriculum off: the share is 1.
        max_update: the updates of the training; 0: unknown.
    """

    def __init__(self, steps: Optional[int], power: float, max_update: int) -> None:
        self.steps, self.power, self.max_update = steps, float(power), max_update
        # Length and exponent that the training was begun with.
        self._begun_with: Optional[Tuple[int, float]] = None

    def share(self, update: int) -> float:
        """The share of sentences in an update.

        Raises:
            ValueError: the length of the curriculum is unknown.
        """
        total, power = self.settings()
        return float(min(1.0, update / total) ** power) if power else 1.0

    def settings(self) -> Tuple[int, float]:
        """(Length in updates, exponent); (0, 0) for an exponent of 0. Raises ValueError if the
        length is unknown."""
        if self.power == 0:
            return 0, self.power
        begun_with = self._begun_with[0] if self._begun_with else None
        total = self.steps or begun_with or self.max_update
        if not total or total < 0:
            raise ValueError(
                "the curriculum needs its length in updates, which --max-epoch does not give: give"
                " --max-update, or --hrt-curriculum-steps (or --hrt-curriculum-power 0 to train"
                " without a curriculum)"
            )
        return total, self.power

    def begin(self, update: int) -> None:
        """Stores the curriculum's length and exponent at the first update that is trained; warns if
        that is not update 0 and no checkpoint has restored them by :meth:`resume`."""
        if self._begun_with is not None:
            return
        self._begun_with = self.settings()
        if update and self._begun_with[1]:
            # --reset-dataloader, or a checkpoint of an earlier version.
            logger.warning(
                "the length of the curriculum so far is not known; from update %d on it is %d"
                " updates long: give another length by --hrt-curriculum-steps",
                update,
                self._begun_with[0],
            )

    def resume(self, stored: Optional[Sequence[float]]) -> None:
        """Continues the curriculum of a resumed training: its length stays, even with a longer
        ``--max-update``, unless ``--hrt-curriculum-steps`` gives another. Changes are logged.

        Args:
            stored: (length in updates, exponent) from the checkpoint; None: the checkpoint has no
                curriculum, and nothing is done.
        """
        if stored is None:
            return
        self._begun_with = int(stored[0]), float(stored[1])
        length, power = self.settings()
        if (length, power) != self._begun_with:
            logger.warning(
                "the curriculum was begun with --hrt-curriculum-steps %d --hrt-curriculum-power %g;"
                " now they are %d and %g: give the former to keep it",
                *self._begun_with,
                length,
                power,
            )
        elif power and not self.steps and self.max_update not in (0, length):
            logger.info(
                "the curriculum keeps the %d updates that it was begun with:"
                " --hrt-curriculum-steps %d adapts it to --max-update",
                length,
                self.max_update,
            )
