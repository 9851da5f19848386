"""The results of gpu_speed.py: a file that is written after every row, and the time left."""

import gc
import json
import statistics
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch

from fairseq_hrt.native.io.files import write_text

# Names in a row that stand in place of figures.
WITHOUT = ("failed", "not_run")
MIB = 2**20
# Why a row failed whose process was ended since it took too long.
HUNG = "no answer"


class NotMeasured(RuntimeError):
    """Why a row has no figures, though nothing is wrong."""


class DeviceLost(RuntimeError):
    """The device answers nothing any more: only a new process can continue."""


class Journal:
    """The rows of a run, each written as soon as it is known.

    Args:
        path: of the JSON file; if it is there, its rows are kept and not measured again.
        device: what is measured.
        end: time (Unix) at which the whole run ends.
        head: what stands before the rows, where the file is new.

    Attributes:
        document: what is written.
        part: the part that is being measured.
    """

    def __init__(self, path: Path, device: torch.device, end: float, head: Dict[str, Any]) -> None:
        self.path, self.device, self.end = path, device, end
        self.document = read(path) or {**head, "rows": []}
        self.part, self.part_end = "", end

    def begin(self, part: str, share: float) -> None:
        """Begins a part, which has ``share`` of the time that is left."""
        now = time.time()
        self.part, self.part_end = part, now + share * max(0.0, self.end - now)
        self.document["planned"] = []
        release(self.device)

    def plan(self, labels: List[Dict[str, Any]]) -> None:
        """Notes the rows of the part: where the process is ended, they are marked as not run."""
        self.document["planned"] = [{"part": self.part, **own} for own in labels]

    @property
    def left(self) -> float:
        """Seconds that the part has left."""
        return self.part_end - time.time()

    def row(
        self, labels: Dict[str, Any], measure: Callable[[], Dict[str, Any]], patience: float = 90
    ) -> Optional[Dict[str, Any]]:
        """Measures a row and writes it, or why there is none.

        Args:
            labels: name the row; no two rows of a part have the same.
            measure: returns the figures.
            patience: seconds after which the process is ended from outside.

        Returns:
            The row, None without figures.

        Raises:
            DeviceLost: nothing can be measured any more in this process.
        """
        wanted = {"part": self.part, **labels}
        for row in self.document["rows"]:
            if all(row.get(name) == value for name, value in wanted.items()):
                return row if not any(name in row for name in WITHOUT) else None
        if self.left <= 0:
            return self.add(wanted, not_run="no time left")
        self.document["doing"] = {**wanted, "until": time.time() + patience}
        self.write()
        lost = None
        try:
            # Nothing of an attempt that failed may stay in memory: hence the function of its own.
            found = measure()
        except NotMeasured as reason:
            found = {"not_run": str(reason)}
        except Exception as error:
            found = {"failed": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"}
            lost = self.answers()
        self.document.pop("doing", None)
        row = self.add(wanted, **found)
        if lost:
            raise DeviceLost(lost)
        return row

    def add(self, labels: Dict[str, Any], **found: Any) -> Optional[Dict[str, Any]]:
        """Writes and prints a row; returns it, None without figures."""
        row = {**labels, **found}
        self.document["rows"].append(row)
        self.write()
        print(line(row), flush=True)
        return row if not any(name in row for name in WITHOUT) else None

    def answers(self) -> Optional[str]:
        """Frees what a failed row left; returns why the device is lost, None if it is not."""
        if self.device.type != "cuda":
            return None
        try:
            torch.cuda.synchronize(self.device)
            torch.cuda.empty_cache()
        except RuntimeError as error:
            return str(error).splitlines()[0]
        return None

    def write(self) -> None:
        """Writes the file, whole or not at all."""
        write_text(self.path, json.dumps(self.document, indent=1, ensure_ascii=False) + "\n")

    def found(self, part: str, name: str) -> Optional[float]:
        """The figure ``name`` of the first row of a part that has it."""
        for row in self.document["rows"]:
            if row["part"] == part and name in row:
                return float(row[name])
        return None


def read(path: Path) -> Optional[Dict[str, Any]]:
    """The document of an earlier process, None where there is none."""
    if not path.exists():
        return None
    document: Dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return document


def synchronize(device: torch.device) -> None:
    """Waits until the device has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def allocated(device: torch.device) -> int:
    """Bytes that PyTorch holds on the device; 0 on a CPU."""
    return torch.cuda.memory_allocated(device) if device.type == "cuda" else 0


def kept(device: torch.device) -> int:
    """Bytes that PyTorch cannot give back to the device; 0 on a CPU."""
    if device.type != "cuda":
        return 0
    torch.cuda.empty_cache()
    return torch.cuda.memory_reserved(device)


def release(device: torch.device) -> None:
    """Frees what nobody uses any more: recorded graphs and their buffers, above all."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


def timed(
    run: Callable[[], Any],
    device: torch.device,
    *,
    warmups: int = 1,
    repeats: int = 7,
    seconds: float = 2.5,
    events: bool = False,
) -> Dict[str, Any]:
    """Times ``run``: the first call, then repeats after the warm-up.

    Args:
        warmups: calls before those that count, the first one included.
        repeats: that count, at least 3 of them.
        seconds: after which there are no more than 3 repeats.
        events: the device's clock instead of the host's, where there is one.

    Returns:
        ``first_ms``, ``ms`` (the median), ``low``, ``high``, ``repeats``; on a GPU ``peak_mib``,
        beyond what was held before.
    """
    held = allocated(device)
    if device.type == "cuda":
        synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
    least = min(3, repeats)
    clock = _device_clock if events and device.type == "cuda" else _host_clock
    begun = time.perf_counter()
    first, *_ = [clock(run, device) for _ in range(max(1, warmups))]
    times: List[float] = []
    while len(times) < repeats:
        if len(times) >= least and time.perf_counter() - begun > seconds:
            break
        times.append(clock(run, device))
    found: Dict[str, Any] = {"first_ms": round(first, 2), **spread(times), "repeats": len(times)}
    if device.type == "cuda":
        found["peak_mib"] = round((torch.cuda.max_memory_allocated(device) - held) / MIB, 1)
    return found


def spread(times: List[float], digits: int = 4) -> Dict[str, float]:
    """Median, least and largest."""
    return {
        "ms": round(statistics.median(times), digits),
        "low": round(min(times), digits),
        "high": round(max(times), digits),
    }


def _host_clock(run: Callable[[], Any], device: torch.device) -> float:
    synchronize(device)
    begun = time.perf_counter()
    run()
    synchronize(device)
    return 1000 * (time.perf_counter() - begun)


def _device_clock(run: Callable[[], Any], device: torch.device) -> float:
    begun, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begun.record()
    run()
    ended.record()
    ended.synchronize()
    return begun.elapsed_time(ended)


# Labels of rows, in the order of the table, with their widths.
LABELS: Tuple[Tuple[str, int], ...] = (
    ("layers", 5), ("batch", 4), ("tokens", 4), ("system", 24), ("way", 11),
)  # fmt: skip


def line(row: Dict[str, Any]) -> str:
    """A row in one line: what was measured, milliseconds, what else is known."""
    shown = [f"{row['part']:11}"]
    for name, width in LABELS:
        if name in row:
            text = f"{name[0]}={row[name]}" if name in ("batch", "tokens") else str(row[name])
            shown.append(text.ljust(width + 2 * (name in ("batch", "tokens"))))
    if "ms" in row:
        shown.append(f"{row['ms']:10.3f} ms ({row['low']:.3f}–{row['high']:.3f})")
    known = {"part", "ms", "low", "high", "first_ms", "repeats", *(name for name, _ in LABELS)}
    shown += [f"{name} {value}" for name, value in row.items() if name not in known
              and not isinstance(value, (dict, list))]  # fmt: skip
    return " ".join(shown)
