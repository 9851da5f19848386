"""Ways of decoding as ``fairseq_hrt.evaluation.speed.measure`` takes them, with their CPU time."""

import time
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Sequence

from fairseq_hrt.engine.counters import GenerationCounters


class Clock:
    """Seconds by wall clock, in which a call of another process takes as long as that process
    reports: the way there and back is hidden."""

    def __init__(self) -> None:
        self.hidden = 0.0

    def __call__(self) -> float:
        return time.perf_counter() - self.hidden


@dataclass
class Row:
    """A way of decoding given batches.

    Attributes:
        name: of the row.
        batches: what is decoded, one of them at a time.
        translate: decodes a batch. Where another process does, ``remote``, it returns what was
            found and the wall and CPU seconds of that process.
        clock: that of the measurement.
        counters: of the decoder; by default they are not known.
        more: figures of the row beside its times.
        cpu: seconds of each batch that was decoded.
    """

    name: str
    batches: Sequence[Any]
    translate: Callable[[Any], Any]
    clock: Clock
    counters: GenerationCounters = field(default_factory=lambda: GenerationCounters(known=False))
    remote: bool = False
    more: Dict[str, Any] = field(default_factory=dict)
    cpu: List[float] = field(default_factory=list)

    def collate(self, ids: Sequence[int]) -> Any:
        """The batch ``ids[0]``."""
        return self.batches[ids[0]]

    def decode(self, sample: Any) -> Any:
        """Translates a batch."""
        wall, cpu = time.perf_counter(), time.process_time()
        found = self.translate(sample)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        if self.remote:
            found, own, cpu = found
            self.clock.hidden += wall - own
        self.cpu.append(cpu)
        return found
