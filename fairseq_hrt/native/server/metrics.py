"""Figures for Prometheus; no label holds anything from a request besides its route."""

import os
from typing import Any, Callable, Tuple

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
    multiprocess,
)

_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)


class Metrics:
    """The figures of one process, or of all workers where ``PROMETHEUS_MULTIPROC_DIR`` names their
    common folder."""

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
        """Counts a finished request."""
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def observe_batch(self, system: str, sentences: int, seconds: float) -> None:
        """Counts a decoded batch."""
        self._sentences.labels(system).inc(sentences)
        self._batches.labels(system).observe(sentences)
        self._decoding.labels(system).observe(seconds)

    def observe_queue(self, system: str, waiting: int) -> None:
        """Notes the length of a queue for whoever reads the figures in another worker."""
        if _shared():
            self._queue.labels(system).set(waiting)

    def watch_queue(self, system: str, waiting: Callable[[], int]) -> None:
        """Asks ``waiting`` for the length of a queue whenever the figures are read; of several
        workers each notes its own."""
        if not _shared():
            self._queue.labels(system).set_function(waiting)

    def exposition(self) -> Tuple[bytes, str]:
        """The figures as Prometheus reads them, and their content type."""
        registry = self._registry
        if _shared():
            registry = CollectorRegistry()
            multiprocess.MultiProcessCollector(registry)
        return generate_latest(registry), CONTENT_TYPE_LATEST


def forget_worker(process: int) -> None:
    """Takes what a dead worker had in its queue out of the figures; what it has done stays
    counted."""
    if _shared():
        multiprocess.mark_process_dead(process)


def _shared() -> bool:
    return "PROMETHEUS_MULTIPROC_DIR" in os.environ
