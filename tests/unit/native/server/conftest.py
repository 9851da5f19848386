"""A server whose systems translate words by turning them round: its answer to a sentence depends
on nothing else."""

import asyncio
import contextlib
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import List

import pytest
from starlette.testclient import TestClient

from fairseq_hrt.native.bundles.batching import Batcher
from fairseq_hrt.native.bundles.bundle import Bundle
from fairseq_hrt.native.server import application, connections, process, routes
from fairseq_hrt.native.server.settings import Settings
from fairseq_hrt.native.server.systems import ServedSystem


@dataclass
class Reversed:
    """What a translator returns, as far as the server looks at it."""

    source: str
    text: str
    score: float = -0.5
    tokens: List[str] = field(default_factory=list)
    token_steps: List[int] = field(default_factory=list)
    steps: int = 1
    alternatives: List["Reversed"] = field(default_factory=list)


class ReversingTranslator:
    """``abc def`` → ``cba fed``; keeps the batches that it was given."""

    def identity(self):
        return {"engine": "torch"}

    def describe(self):
        return "words turned round"

    def __init__(self):
        self.batches = []
        self.before = lambda lines: None
        # Batches of terms.
        self.terms = []

    def unknown_words(self, line):
        return ["unknown"] if "?" in line else []

    def prepare(self, line):
        return [line]

    def new_terms(self, lines, glossary):
        known = {term for batch in self.terms for term in batch}
        found = {line[one.start : one.end] for line in lines for one in glossary.find(line)}
        return sorted(found - known)

    def prepare_terms(self, terms, *, batch_size, cancelled):
        self.terms.append(terms)

    def translate(
        self, lines, *, details, batch_size=32, nbest=1, cancelled=None, given=None, **decoding
    ):
        self.batches.append((list(lines), {"nbest": nbest, **decoding}))
        self.before(lines)
        found = []
        for line in lines:
            words = [word[::-1] for word in line.split()]
            one = Reversed(
                line,
                " ".join(words),
                tokens=[*words, "</s>"],
                token_steps=[1] * len(words) + [2],
                steps=2,
            )
            one.alternatives = [Reversed(line, f"{one.text} {rank}") for rank in range(1, nbest)]
            found.append(one)
        return found


def bundle(source="en", target="de", task="translation_autoregressive"):
    return Bundle(Path("unused"), task, source, target, "space", "none")


@pytest.fixture
def translator():
    return ReversingTranslator()


@pytest.fixture
def make_client(monkeypatch, translator):
    """A function that starts a server with some settings; systems are named
    ``name:source-target``."""
    clients = []

    def load(name, folder, settings, metrics, load_translator):
        source, _, target = name.partition(":")[2].partition("-")

        def decode(lines, options):
            if options.pop("graph", False):
                return translator.graphs(lines, batch_size=settings.max_batch, **options)
            return translator.translate(lines, details=True, **options)

        batcher = Batcher(
            decode,
            prepare=lambda sentence: [sentence],
            join=lambda sentence, results, options: results,
            max_batch=settings.max_batch,
            max_queue=settings.max_queue,
            wait=settings.batch_wait,
        )
        task = "translation_dag" if name.startswith("dag") else "translation_autoregressive"
        return ServedSystem(name, bundle(source, target, task), translator, batcher)

    monkeypatch.setattr(routes, "load_served", load)

    def make(systems=("plain:en-de",), **settings):
        # How quick the machine is decides nothing.
        chosen = Settings(
            systems=tuple((name, Path("unused")) for name in systems),
            **{"time_limit": 300, **settings},
        )
        client = TestClient(application.create_application(chosen), raise_server_exceptions=False)
        clients.append(client)
        client.__enter__()
        return client

    yield make
    for client in clients:
        client.__exit__(None, None, None)


@pytest.fixture
def client(make_client):
    return make_client()


@contextlib.contextmanager
def _listening(application, seconds, most):
    """A server in a thread: (its address, a function that tells it to end)."""
    server, ready = connections.Server(application, seconds, most), threading.Event()
    with process.bound_socket("127.0.0.1", 0) as found:
        address, loop = found.getsockname(), asyncio.new_event_loop()
        stop = asyncio.Event()

        def run():
            loop.run_until_complete(server.serve(found, stop, ready.set))
            loop.run_until_complete(asyncio.sleep(0))

        thread = threading.Thread(target=run)
        thread.start()
        assert ready.wait(20)
        try:
            yield address, lambda: loop.call_soon_threadsafe(stop.set)
        finally:
            loop.call_soon_threadsafe(stop.set)
            thread.join(20)
            assert not thread.is_alive()
            loop.close()


@pytest.fixture
def listening():
    """Has an application answer at an address of its own."""
    return _listening
