"""Loading time, memory and size of the weights of a system, measured in a process of its own."""

import logging
import multiprocessing
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import List, Optional, Sequence

import torch

from .systems import SystemSpec, load_system


@dataclass(frozen=True)
class Footprint:
    """Time and memory of one process.

    Attributes:
        load_seconds: to read checkpoint, dictionaries and the binarised sentences; Python's imports
            are not counted.
        base_bytes: memory of the process before loading, imports included.
        peak_bytes: largest memory (resident set) of the process while it loaded and translated.
        model_bytes: size of the weights.
        gpu_bytes: largest GPU memory that PyTorch allocated; None on a CPU.
    """

    load_seconds: float
    base_bytes: int
    peak_bytes: int
    model_bytes: int
    gpu_bytes: Optional[int]


def measure_footprint(
    spec: SystemSpec, data: Sequence[str], batches: List[List[int]], threads: int
) -> Footprint:
    """Loads a system in a fresh process and translates ``batches`` there.

    Args:
        spec: the system: a converted model itself, not the checkpoint it was converted from.
        data: see :func:`.systems.generate_arguments`.
        batches: sentence ids.
        threads: of PyTorch.
    """
    # Not forked: a fork starts with the memory of this process.
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_measure, spec, list(data), batches, threads).result()


def _measure(
    spec: SystemSpec, data: List[str], batches: List[List[int]], threads: int
) -> Footprint:
    torch.set_num_threads(threads)
    logging.getLogger("fairseq").setLevel(logging.WARNING)
    base = peak_memory()
    start = time.perf_counter()
    system = load_system(spec, data)
    seconds = time.perf_counter() - start
    for batch in batches:
        system.decode(system.collate(batch))
    gpu = torch.cuda.max_memory_allocated() if system.device.type == "cuda" else None
    return Footprint(seconds, base, peak_memory(), system.model_bytes, gpu)


def peak_memory() -> int:
    """Largest resident set of this process so far, in bytes."""
    status = Path("/proc/self/status")
    if status.exists():
        # Not getrusage: there a new program inherits the peak of the process that started it.
        for line in status.read_text(encoding="utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return 1024 * int(line.split()[1])
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
