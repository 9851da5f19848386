"""Measures loading time, memory and the size of the weights of a system, in a process of its
own."""

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
    """Loading time and memory of a process that loads a system and translates.

    Attributes:
        load_seconds: time to load checkpoint, dictionaries and binarised sentences; Python's
            imports are not counted.
        base_bytes: memory of the process before loading, imports included.
        peak_bytes: largest memory (resident set) of the process while it loaded and translated.
        model_bytes: size of the weights, see :attr:`.systems.System.model_bytes`.
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
        spec: the system's specification; it should name a converted model rather than a checkpoint,
            whose conversion would count as loading.
        data: the data folder and the options that choose its sentences and languages, see
            :func:`.systems.generate_arguments`.
        batches: the sentence ids of each batch.
        threads: number of PyTorch's threads.
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
    """The largest memory (resident set) that this process has had so far, in bytes."""
    status = Path("/proc/self/status")
    if status.exists():
        # Not getrusage: there a new program inherits the peak of the process that started it.
        for line in status.read_text(encoding="utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return 1024 * int(line.split()[1])
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
