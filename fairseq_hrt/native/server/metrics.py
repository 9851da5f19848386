"""Metrics for Prometheus. Their labels hold nothing from a request besides its route."""

import os
from pathlib import Path
from typing import Any, Tuple

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
    multiprocess,
    values,
)

# The environment variable that names the folder of the workers' metrics. prometheus_client reads it
# when it is imported.
FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)


class Metrics:
    """The metrics of this process. If the environment variable :data:`FOLDER_VARIABLE` names a
    folder, all worker processes store their metrics in it, and each reports the sums over all
    workers."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()

        def made(kind: Any, name: str, text: str, *labels: str, **more: Any) -> Any:
            return kind(f"fairseq_hrt_{name}", text, labels, registry=self._registry, **more)

        times, sizes = {"buckets": _SECONDS}, {"buckets": (1, 2, 4, 8, 16, 32, 64, 128)}
        self._requests = made(
            Counter, "requests", "Requests by route and status", "route", "status"
        )
        self._seconds = made(Histogram, "request_seconds", "Seconds of a request", "route", **times)
        self._sentences = made(Counter, "sentences", "Translated sentences", "system")
        self._batches = made(
            Histogram, "batch_sentences", "Sentences of a batch", "system", **sizes
        )
        self._decoding = made(
            Histogram, "batch_seconds", "Seconds of decoding a batch", "system", **times
        )
        mode = {"multiprocess_mode": "livesum"}
        self._queue = made(Gauge, "waiting_sentences", "Sentences in the queue", "system", **mode)

    def observe_request(self, route: str, status: int, seconds: float) -> None:
        """Counts a finished request to ``route`` by the HTTP status of its answer, and stores the
        seconds that it took."""
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def observe_batch(self, system: str, sentences: int, seconds: float) -> None:
        """Counts a decoded batch of a system: the number of its sentences, and the seconds that
        decoding took."""
        self._sentences.labels(system).inc(sentences)
        self._batches.labels(system).observe(sentences)
        self._decoding.labels(system).observe(seconds)

    def observe_queue(self, system: str, waiting: int) -> None:
        """Stores the number of sentences in a system's queue."""
        self._queue.labels(system).set(waiting)

    def exposition(self) -> Tuple[bytes, str]:
        """Returns the metrics in the text format of Prometheus, and the format's content type."""
        registry = self._registry
        if _shared():
            registry = CollectorRegistry()
            multiprocess.MultiProcessCollector(registry)
        return generate_latest(registry), CONTENT_TYPE_LATEST


def reserve_space(worker: int, systems: int) -> None:
    """Reserves disk space for the metrics of this process, the worker with the number ``worker``;
    to be called before :class:`Metrics` is made. A worker that replaces one that has died has its
    number and continues its files, so there are never more files than for the running workers.

    prometheus_client maps files with holes into memory: a process that writes into a hole while the
    disk is full is killed (SIGBUS), and so is each process that replaces it.

    Args:
        worker: the number of the worker; no other process that runs has it.
        systems: the number of systems that are served.

    Raises:
        OSError: the disk has no room for the metrics.
    """
    folder = Path(os.environ[FOLDER_VARIABLE])
    # Bytes for the counts and times of 16 routes with a dozen statuses each, and for each system.
    size = (1 << 17) + systems * (1 << 13)
    try:
        for kind in ("counter", "gauge_livesum", "histogram"):
            file = folder / f"{kind}_{worker}.db"
            if not file.exists():
                file.write_bytes(bytes(size))
    except OSError as error:
        raise OSError(
            f"no room for the metrics of a worker in {folder.parent} ({error.strerror}): set TMPDIR"
            f" to a folder with {3 * size >> 10} kB for each worker"
        ) from error
    # By default files are named by process ids.
    values.ValueClass = values.MultiProcessValue(lambda: worker)


def forget_worker(worker: int) -> None:
    """Removes the queue lengths of the worker with the number ``worker``, which has died, from the
    metrics; its finished requests stay counted."""
    if _shared():
        multiprocess.mark_process_dead(worker)


def _shared() -> bool:
    return FOLDER_VARIABLE in os.environ
