"""Figures for Prometheus, of one process and of several."""

import os
import subprocess
import sys

import pytest
from prometheus_client.parser import text_string_to_metric_families

from fairseq_hrt.native.server.metrics import Metrics

ASKED = {"q": "Good morning.", "source": "en", "target": "de"}


@pytest.fixture(autouse=True)
def one_process(monkeypatch):
    monkeypatch.delenv("PROMETHEUS_MULTIPROC_DIR", raising=False)


def read(metrics):
    """(name, labels, that of a bucket last) → value, by the parser of Prometheus."""
    content, kind = metrics.exposition()
    assert kind.startswith("text/plain")
    found = {}
    for family in text_string_to_metric_families(content.decode()):
        for sample in family.samples:
            labels = [value for name, value in sample.labels.items() if name != "le"]
            bucket = [sample.labels["le"]] if "le" in sample.labels else []
            found[(sample.name.removeprefix("fairseq_hrt_"), *labels, *bucket)] = sample.value
    return found


def test_requests_and_batches_are_counted():
    metrics = Metrics()
    for status, seconds in ((200, 0.5), (200, 0.0015), (400, 3.0)):
        metrics.observe_request("/translate", status, seconds)
    metrics.observe_batch("a", 3, 0.25)
    metrics.observe_batch("a", 5, 0.5)
    found = read(metrics)
    assert (
        found["requests_total", "/translate", "200"] == 2
        and found["requests_total", "/translate", "400"] == 1
    )
    assert found["request_seconds_sum", "/translate"] == pytest.approx(3.5015)
    assert (
        found["request_seconds_bucket", "/translate", "0.002"] == 1
        and found["request_seconds_bucket", "/translate", "1.0"] == 2
    )
    assert found["sentences_total", "a"] == 8 and found["batch_sentences_count", "a"] == 2
    assert found["batch_sentences_bucket", "a", "4.0"] == 1 and found[
        "batch_seconds_sum", "a"
    ] == pytest.approx(0.75)


def test_the_queue_has_its_last_length():
    metrics = Metrics()
    for waiting in (3, 0):
        metrics.observe_queue("a", waiting)
        assert read(metrics)["waiting_sentences", "a"] == waiting


def test_figures_of_one_server_are_its_own():
    first, second = Metrics(), Metrics()
    first.observe_batch("a", 1, 0.1)
    assert ("sentences_total", "a") in read(first) and ("sentences_total", "a") not in read(second)


def test_figures(client):
    client.post("/translate", json=ASKED)
    client.post("/translate", json={})
    text = client.get("/metrics").text
    assert 'fairseq_hrt_requests_total{route="/translate",status="200"} 1.0' in text
    assert 'fairseq_hrt_requests_total{route="/translate",status="400"} 1.0' in text


def test_queues_of_several_workers_are_summed(tmp_path):
    code = """
import os, subprocess, sys
from fairseq_hrt.native.server.metrics import Metrics, forget_worker
figures = Metrics()
figures.observe_queue("a", int(sys.argv[1]))
if sys.argv[2:]:
    shown = lambda: [line for line in figures.exposition()[0].decode().splitlines() if line.startswith("fairseq_hrt_waiting")]
    other = int(subprocess.run([sys.executable, __file__, "5"], check=True, capture_output=True, text=True).stdout)
    print(shown())
    forget_worker(other)
    print(shown())
else:
    print(os.getpid())
"""
    (tmp_path / "worker.py").write_text(code)
    (tmp_path / "figures").mkdir()
    environment = {
        **os.environ,
        "PROMETHEUS_MULTIPROC_DIR": str(tmp_path / "figures"),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    program = [sys.executable, str(tmp_path / "worker.py"), "3", "first"]
    result = subprocess.run(program, capture_output=True, text=True, env=environment, timeout=120)
    assert result.stdout.splitlines() == [
        "['fairseq_hrt_waiting_sentences{system=\"a\"} 8.0']",
        "['fairseq_hrt_waiting_sentences{system=\"a\"} 3.0']",
    ], result
