"""Figures for Prometheus; no label holds anything from a request besides its route."""

import os
from typing import Callable, Tuple

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
        self._requests = Counter(
            "fairseq_hrt_requests",
            "Requests by route and status",
            ("route", "status"),
            registry=self._registry,
        )
        self._seconds = Histogram(
            "fairseq_hrt_request_seconds",
            "Seconds of a request",
            ("route",),
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._sentences = Counter(
            "fairseq_hrt_sentences", "Translated sentences", ("system",), registry=self._registry
        )
        self._batches = Histogram(
            "fairseq_hrt_batch_sentences", "Sentences of a batch", ("system",),
            buckets=(1, 2, 4, 8, 16, 32, 64, 128), registry=self._registry,
        )  # fmt: skip
        self._decoding = Histogram(
            "fairseq_hrt_batch_seconds",
            "Seconds of decoding a batch",
            ("system",),
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._queue = Gauge(
            "fairseq_hrt_waiting_sentences", "Sentences in the queue", ("system",),
            registry=self._registry, multiprocess_mode="livesum",
        )  # fmt: skip

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
