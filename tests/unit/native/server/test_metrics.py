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


def test_several_workers(tmp_path):
    """Their figures are summed; a worker that has died has no queue, and the one in its place
    continues its counts in the same files."""
    code = """
import os, subprocess, sys
from fairseq_hrt.native.server.metrics import FOLDER_VARIABLE, Metrics, forget_worker, reserve_space
number, queue = map(int, sys.argv[1:])
reserve_space(number, 1)
figures = Metrics()
figures.observe_queue("a", queue)
figures.observe_batch("a", 2, 0.1)

def show():
    lines = figures.exposition()[0].decode().splitlines()
    names = ("fairseq_hrt_waiting", "fairseq_hrt_sentences_total")
    print(len(os.listdir(os.environ[FOLDER_VARIABLE])), *(line.split()[1] for line in lines if line.startswith(names)))

if number == 0:
    for queue in ("5", "6"):
        subprocess.run([sys.executable, __file__, "1", queue], check=True)
        show()
        forget_worker(1)
        show()
"""
    (tmp_path / "worker.py").write_text(code)
    (tmp_path / "figures").mkdir()
    environment = {
        **os.environ,
        "PROMETHEUS_MULTIPROC_DIR": str(tmp_path / "figures"),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    program = [sys.executable, str(tmp_path / "worker.py"), "0", "3"]
    result = subprocess.run(program, capture_output=True, text=True, env=environment, timeout=120)
    shown = ["6 4.0 8.0", "5 4.0 3.0", "6 6.0 9.0", "5 6.0 3.0"]
    assert [sorted(line.split()) for line in result.stdout.splitlines()] == [
        sorted(line.split()) for line in shown
    ], result
