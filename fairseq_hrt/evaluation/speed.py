"""Speed of several systems in one run: interleaved, repeated, summed up by medians with their
spread."""

import math
import statistics
import time
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Optional, Protocol, Sequence

from ..engine import GenerationCounters


class Timed(Protocol):
    """What can be measured; :class:`~.systems.System` is one."""

    name: str
    counters: GenerationCounters

    def collate(self, ids: Sequence[int]) -> Any:
        """The batch of the sentences ``ids``."""

    def decode(self, sample: Any) -> Any:
        """Translates a batch."""


@dataclass(frozen=True)
class Spread:
    """Median and range of one figure over the repeats."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """Median, minimum and maximum of ``values`` (at least one)."""
        return cls(median=statistics.median(values), low=min(values), high=max(values))


@dataclass
class Timing:
    """What one system needed for the same batches in every repeat.

    Attributes:
        batches: sentence ids of each batch.
        seconds: ``seconds[repeat][batch]``.
        decoder_calls: of one repeat; None where they are not known.
    """

    batches: List[List[int]]
    seconds: List[List[float]] = field(default_factory=list)
    decoder_calls: Optional[int] = 0

    @property
    def sentences(self) -> int:
        """Sentences of one repeat."""
        return sum(len(batch) for batch in self.batches)

    def sentences_per_second(self) -> Spread:
        """Sentences per second, over the repeats."""
        return Spread.of([self.sentences / sum(repeat) for repeat in self.seconds])

    def words_per_second(self, words: int) -> Spread:
        """Words per second, over the repeats; ``words`` counts those of all batches."""
        return Spread.of([words / sum(repeat) for repeat in self.seconds])

    def batch_milliseconds(self, percent: float) -> float:
        """The ``percent``-th percentile of the batches' times, each its median over the repeats."""
        medians = sorted(statistics.median(times) for times in zip(*self.seconds))
        # Nearest rank: the result is the time of a batch that was really decoded.
        rank = max(1, math.ceil(percent / 100 * len(medians)))
        return 1000 * medians[rank - 1]

    def mean_milliseconds(self) -> float:
        """Mean of the batches' times, each its median over the repeats."""
        return 1000 * statistics.fmean(statistics.median(times) for times in zip(*self.seconds))

    def decoder_calls_per_batch(self) -> Optional[float]:
        """Mean over the batches; at batch size 1 the decoder calls of a sentence. None where they
        are not known."""
        return None if self.decoder_calls is None else self.decoder_calls / len(self.batches)

    def ratio_to(self, reference: "Timing") -> Spread:
        """How many times as fast as ``reference``: repeats are compared pairwise, so that a slow
        phase of the machine cancels out."""
        return Spread.of(
            [sum(theirs) / sum(ours) for ours, theirs in zip(self.seconds, reference.seconds)]
        )


def make_batches(ids: Sequence[int], lengths: Sequence[int], batch_size: int) -> List[List[int]]:
    """Batches of ``batch_size`` sentences of similar length (the last may be smaller), ``lengths``
    those of ``ids``."""
    order = [sentence for _, sentence in sorted(zip(lengths, ids))]
    return [order[start : start + batch_size] for start in range(0, len(order), batch_size)]


def measure(
    systems: Sequence[Timed],
    batches: List[List[int]],
    *,
    repeats: int = 5,
    clock: Callable[[], float] = time.perf_counter,
    progress: Callable[[str], None] = lambda text: None,
) -> Dict[str, Timing]:
    """Decodes ``batches`` with every system, ``repeats`` times, the systems taking turns.

    The systems are interleaved and their order is rotated from repeat to repeat: a machine that is
    slow for a while slows all of them. One more repeat before, not counted, warms up. Batches are
    collated outside the clock.

    Args:
        systems: with distinct names.
        batches: sentence ids.
        repeats: measured repeats, at least 1.
        clock: seconds, monotonic.
        progress: called with a line of text before each repeat.

    Returns:
        timings by the name of the system.

    Raises:
        ValueError: fewer than one repeat, no batches, or two systems of one name.
    """
    if repeats < 1:
        raise ValueError(f"repeats={repeats}: at least one is needed")
    if not batches:
        raise ValueError("there are no sentences to measure with; choose a larger subset")
    timings = {system.name: Timing(batches=batches) for system in systems}
    if len(timings) != len(systems):
        raise ValueError(
            f"systems need distinct names, these are {[system.name for system in systems]}"
        )
    for repeat in range(-1, repeats):
        progress("warm-up" if repeat < 0 else f"repeat {repeat + 1} of {repeats}")
        first = max(repeat, 0) % len(systems)
        for system in [*systems[first:], *systems[:first]]:
            seconds = _decode_all(system, batches, clock)
            if repeat >= 0:
                timings[system.name].seconds.append(seconds)
                timings[system.name].decoder_calls = (
                    system.counters.decoder_calls if system.counters.known else None
                )
    return timings


def _decode_all(system: Timed, batches: List[List[int]], clock: Callable[[], float]) -> List[float]:
    system.counters.reset()
    # Decoders that learn from earlier sentences must not know these ones from the repeat before.
    forget = getattr(getattr(system, "generator", None), "forget", None)
    if forget is not None:
        forget()
    seconds = []
    for ids in batches:
        # A fresh batch each time: fairseq may change the one it is given.
        sample = system.collate(ids)
        start = clock()
        system.decode(sample)
        seconds.append(clock() - start)
    return seconds
