"""Measures the speed of several systems in one run: they take turns, every measurement is repeated,
and the result is the median with minimum and maximum."""

import math
import statistics
import time
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Optional, Protocol, Sequence

from ..engine import GenerationCounters


class Timed(Protocol):
    """What :func:`measure` can time; :class:`~.systems.System` has this interface.

    Attributes:
        name: the name in the results.
        counters: encoder and decoder calls since the last reset.
    """

    name: str
    counters: GenerationCounters

    def collate(self, ids: Sequence[int]) -> Any:
        """The batch of the sentences ``ids``, made outside the measured time."""

    def decode(self, sample: Any) -> Any:
        """Translates a batch that :meth:`collate` made; this is timed."""


@dataclass(frozen=True)
class Spread:
    """Median, minimum and maximum of one figure over the repeats."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """Median, minimum and maximum of ``values``, which must not be empty."""
        return cls(median=statistics.median(values), low=min(values), high=max(values))


@dataclass
class Timing:
    """The times that one system needed for the same batches in every repeat.

    Attributes:
        batches: the sentence ids of each batch.
        seconds: decoding times as ``seconds[repeat][batch]``.
        decoder_calls: the number of decoder calls in one repeat; None if the decoder does not
            report it.
    """

    batches: List[List[int]]
    seconds: List[List[float]] = field(default_factory=list)
    decoder_calls: Optional[int] = 0

    @property
    def sentences(self) -> int:
        """The number of sentences that one repeat decodes."""
        return sum(len(batch) for batch in self.batches)

    def sentences_per_second(self) -> Spread:
        """Sentences per second: median, minimum and maximum over the repeats."""
        return Spread.of([self.sentences / sum(repeat) for repeat in self.seconds])

    def words_per_second(self, words: int) -> Spread:
        """Words per second: median, minimum and maximum over the repeats; ``words`` is the number
        of words in all batches together."""
        return Spread.of([words / sum(repeat) for repeat in self.seconds])

    def batch_milliseconds(self, percent: float) -> float:
        """The ``percent``-th percentile (nearest rank) of the batches' times in milliseconds; the
        time of a batch is its median over the repeats."""
        medians = sorted(statistics.median(times) for times in zip(*self.seconds))
        # Nearest rank: the result is the time of a batch that was really decoded.
        rank = max(1, math.ceil(percent / 100 * len(medians)))
        return 1000 * medians[rank - 1]

    def mean_milliseconds(self) -> float:
        """The mean of the batches' times in milliseconds; the time of a batch is its median over
        the repeats."""
        return 1000 * statistics.fmean(statistics.median(times) for times in zip(*self.seconds))

    def decoder_calls_per_batch(self) -> Optional[float]:
        """The mean number of decoder calls per batch, which at batch size 1 is that per sentence;
        None if the decoder does not report it."""
        return None if self.decoder_calls is None else self.decoder_calls / len(self.batches)

    def ratio_to(self, reference: "Timing") -> Spread:
        """How many times as fast as ``reference`` this system is: median, minimum and maximum over
        the repeats. Times of the same repeat are compared, so that a slow phase of the machine
        cancels out."""
        return Spread.of(
            [sum(theirs) / sum(ours) for ours, theirs in zip(self.seconds, reference.seconds)]
        )


def make_batches(ids: Sequence[int], lengths: Sequence[int], batch_size: int) -> List[List[int]]:
    """Divides the sentences ``ids``, whose numbers of tokens are ``lengths``, into batches of
    similar length; each has ``batch_size`` sentences, the last may have fewer."""
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
    """Times every system while it decodes all ``batches``, ``repeats`` times; within each repeat
    the systems take turns.

    The order of the systems is rotated from repeat to repeat: a machine that is slow for a while
    slows all of them. One more repeat at the beginning, which is not counted, warms up. Making the
    batches is not timed.

    Args:
        systems: the systems; their names must be distinct.
        batches: the sentence ids of each batch.
        repeats: number of measured repeats, at least 1.
        clock: returns seconds and never goes back.
        progress: called with a line of text before each repeat.

    Returns:
        The timings by the name of the system.

    Raises:
        ValueError: ``repeats`` is less than 1, there are no batches, or two systems share a name.
    """
    if repeats < 1:
        raise ValueError(f"repeats={repeats}: give at least 1")
    if not batches:
        raise ValueError(
            "there are no sentences to measure with; choose a subset that has some (--gen-subset)"
        )
    timings = {system.name: Timing(batches=batches) for system in systems}
    if len(timings) != len(systems):
        raise ValueError(
            f"two systems share a name: {[system.name for system in systems]}; give each its own"
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
