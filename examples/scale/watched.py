"""A command that is watched from outside: how far it is, its memory and processor time as it goes,
and its death when it is wanted. Linux.

Nothing here is of the package: what is measured is what a user starts.
"""

import os
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable, Dict, List, Optional, Sequence, Tuple

TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


@dataclass
class Sample:
    """A moment of a run.

    Attributes:
        seconds: since its start.
        cpu: processor seconds of the process and its children.
        memory: MB that the process itself holds (resident).
        done: what is finished, as the run counts.
    """

    seconds: float
    cpu: float
    memory: float
    done: int


@dataclass
class Watched:
    """A run.

    Attributes:
        status: exit status; negative: the signal.
        peaks: MB, the most of the command's process and of each of its children, by their number.
        samples: about twice a second, ten times a second at the beginning; the last is of the end.
    """

    status: int = 0
    peaks: Dict[int, float] = field(default_factory=dict)
    samples: List[Sample] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """Of the whole run."""
        return self.samples[-1].seconds

    @property
    def cpu(self) -> float:
        """Processor seconds of the whole run."""
        return self.samples[-1].cpu

    @property
    def own_peak(self) -> float:
        """MB, the most that the command's process held."""
        return next(iter(self.peaks.values()), 0.0)

    @property
    def children_peak(self) -> float:
        """MB, the most that one of its children held."""
        return max([*self.peaks.values()][1:], default=0.0)

    def first_after(self, done: int) -> Optional[Sample]:
        """The first sample with more than so much done; None: there is none."""
        return next((one for one in self.samples if one.done > done), None)

    def at(self, done: float) -> Sample:
        """The first sample with at least so much done; the last one where there is none."""
        return next((one for one in self.samples if one.done >= done), self.samples[-1])


def _family(process: int) -> List[int]:
    """A process and those that it has started."""
    found = [process]
    try:
        for own in Path(f"/proc/{process}/task").iterdir():
            for child in (own / "children").read_text().split():
                found += _family(int(child))
    except OSError:
        pass
    return found


def _looked_at(process: int) -> Tuple[float, float]:
    """(processor seconds, with those of children that have ended; the most MB ever held)."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    status = Path(f"/proc/{process}/status").read_text()
    most = status.partition("VmHWM:")[2].split(maxsplit=1)
    return sum(map(int, fields[11:15])) / TICKS, int(most[0]) / 1024 if most else 0.0


def _resident(process: int) -> float:
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def watch(
    command: Sequence[str],
    done: Callable[[], int] = lambda: 0,
    *,
    kill_at: Optional[int] = None,
    log: Optional[Path] = None,
) -> Watched:
    """Runs a command to its end, or to a ``kill -9`` when so much is done.

    Args:
        command: with its arguments.
        done: what is finished by now.
        kill_at: see above.
        log: file for its messages.
    """
    found = Watched()
    start = time.perf_counter()
    with open(log or os.devnull, "ab") as messages:
        process = subprocess.Popen(command, stdout=messages, stderr=messages)
    while process.poll() is None:
        own, memory = 0.0, None
        for member in _family(process.pid):
            try:
                cpu, peak = _looked_at(member)
                memory = _resident(process.pid)
            except (OSError, IndexError, ValueError):
                continue  # it has ended meanwhile
            own += cpu
            found.peaks[member] = max(found.peaks.get(member, 0.0), peak)
        if memory is not None:
            passed = time.perf_counter() - start
            found.samples.append(Sample(passed, own, memory, done()))
            if kill_at is not None and found.samples[-1].done >= kill_at:
                process.send_signal(signal.SIGKILL)
                process.wait()
                break
        time.sleep(0.1 if time.perf_counter() - start < 30 else 0.5)
    found.status = process.returncode
    # Since the last look only time has been seen to pass.
    last = found.samples[-1] if found.samples else Sample(0, 0, 0, 0)
    found.samples.append(
        Sample(time.perf_counter() - start, last.cpu, last.memory, max(last.done, done()))
    )
    return found
