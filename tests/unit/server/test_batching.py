"""The queue: company of similar length, nobody forgotten, limits."""

import asyncio
import threading
import time

import pytest

from fairseq_hrt.server.batching import Batcher
from fairseq_hrt.server.errors import RequestError


class Gate:
    """A decoder that waits to be let through and keeps its batches."""

    def __init__(self):
        self.batches, self.entered, self.open = [], threading.Event(), threading.Event()

    def __call__(self, sentences, options):
        self.entered.set()
        assert self.open.wait(10)
        self.batches.append((list(sentences), options))
        return [sentence.upper() for sentence in sentences]


@pytest.fixture
def gate():
    return Gate()


def batcher(gate, **settings):
    return Batcher(gate, **{"max_batch": 3, "max_queue": 100, "wait": 0.0, **settings})


async def waiting(own, count):
    while own.waiting < count:
        await asyncio.sleep(0.001)


def occupied(gate, scenario, **settings):
    """Runs a scenario while the decoder is busy with a first sentence."""

    async def run():
        own = batcher(gate, **settings)
        first = asyncio.ensure_future(own.submit(["first"]))
        while not gate.entered.is_set():
            await asyncio.sleep(0.001)
        result = await scenario(own)
        assert await first == ["FIRST"]
        own.close(5)
        return result

    return asyncio.run(run())


def test_similar_lengths_go_together_and_the_oldest_is_always_among_them(gate):
    async def scenario(own):
        texts = ["a" * 50, "b", "c" * 49, "d" * 2, "e" * 48, "f" * 3]
        tasks = [asyncio.ensure_future(own.submit([text])) for text in texts]
        await waiting(own, 6)
        gate.open.set()
        return [await task for task in tasks]

    answers = occupied(gate, scenario)
    assert answers == [[text.upper()] for text in ["a" * 50, "b", "c" * 49, "d" * 2, "e" * 48, "f" * 3]]
    assert [sorted(map(len, sentences)) for sentences, _ in gate.batches] == [[5], [48, 49, 50], [1, 2, 3]]


def test_a_long_sentence_does_not_starve(gate):
    async def scenario(own):
        long = asyncio.ensure_future(own.submit(["x" * 500]))
        await waiting(own, 1)
        short = [asyncio.ensure_future(own.submit(["y"])) for _ in range(9)]
        await waiting(own, 10)
        gate.open.set()
        await asyncio.gather(long, *short)

    occupied(gate, scenario)
    assert "x" * 500 in gate.batches[1][0]


def test_other_options_are_another_batch(gate):
    async def scenario(own):
        tasks = [asyncio.ensure_future(own.submit(["a", "b"], beam=beam)) for beam in (1, 2)]
        await waiting(own, 4)
        gate.open.set()
        return await asyncio.gather(*tasks)

    assert occupied(gate, scenario) == [["A", "B"], ["A", "B"]]
    assert [options for _, options in gate.batches[1:]] == [{"beam": 1}, {"beam": 2}]


def test_a_full_queue_refuses(gate):
    async def scenario(own):
        kept = asyncio.ensure_future(own.submit(["a", "b"]))
        await waiting(own, 2)
        with pytest.raises(RequestError) as refused:
            await own.submit(["c"])
        gate.open.set()
        await kept
        return refused.value

    error = occupied(gate, scenario, max_queue=2)
    assert (error.status, error.headers) == (429, {"Retry-After": "1"})


def test_what_was_given_up_is_not_decoded(gate):
    async def scenario(own):
        given_up = asyncio.ensure_future(own.submit(["nobody waits"]))
        await waiting(own, 1)
        given_up.cancel()
        await asyncio.gather(given_up, return_exceptions=True)
        assert own.waiting == 0
        gate.open.set()
        return await own.submit(["next"])

    assert occupied(gate, scenario) == ["NEXT"]
    assert ["nobody waits"] not in [sentences for sentences, _ in gate.batches]


def test_a_batch_for_which_nobody_waits_need_not_be_decoded_to_its_end():
    """The decoder asks; one that still waits is enough to go on."""
    batches, entered = [], threading.Event()

    def decode(sentences, options):
        batches.append(list(sentences))
        entered.set()
        while "next" not in sentences:
            if own.given_up():
                raise InterruptedError
            time.sleep(0.001)
        return [sentence.upper() for sentence in sentences]

    async def run():
        requests = [asyncio.ensure_future(own.submit(sentences)) for sentences in (["a", "b"], ["c"])]
        while not entered.is_set():
            await asyncio.sleep(0.001)
        for request in requests:
            assert not own.given_up()
            request.cancel()
            await asyncio.gather(request, return_exceptions=True)
        assert own.given_up()
        return await own.submit(["next"])

    own = Batcher(decode, max_batch=8, max_queue=8, wait=0.05)
    assert asyncio.run(run()) == ["NEXT"]
    own.close(5)
    assert batches == [["a", "b", "c"], ["next"]], "nor its sentences one by one"


def test_an_error_reaches_everybody_in_the_batch_and_nobody_else():
    def decode(sentences, options):
        if options.get("bad"):
            raise ValueError("not this one")
        return list(sentences)

    async def run():
        own = Batcher(decode, max_batch=8, max_queue=8, wait=0.0)
        good, bad = await asyncio.gather(own.submit(["a"]), own.submit(["b"], bad=True), return_exceptions=True)
        own.close(5)
        return good, bad

    good, bad = asyncio.run(run())
    assert good == ["a"] and isinstance(bad, ValueError)


def test_closing_finishes_what_waits_and_refuses_the_rest(gate):
    async def scenario(own):
        last = asyncio.ensure_future(own.submit(["last"]))
        await waiting(own, 1)
        closing = asyncio.get_running_loop().run_in_executor(None, own.close, 5)
        await asyncio.sleep(0.05)
        with pytest.raises(RequestError) as refused:
            await own.submit(["too late"])
        gate.open.set()
        await closing
        return refused.value.status, await last

    assert occupied(gate, scenario) == (503, ["LAST"])


def test_a_sentence_that_fails_takes_no_other_with_it(gate):
    gate.open.set()

    def decode(sentences, options):
        if "bad" in sentences:
            raise RuntimeError("this one")
        return gate(sentences, options)

    async def run():
        own = Batcher(decode, max_batch=8, max_queue=8, wait=0.2)
        found = await asyncio.gather(*(own.submit([text]) for text in ("a", "bad", "b")), return_exceptions=True)
        own.close(5)
        return found

    first, failed, second = asyncio.run(run())
    assert (first, second) == (["A"], ["B"]) and isinstance(failed, RuntimeError)


def test_the_length_of_the_queue_is_told(gate):
    seen = []

    async def scenario(own):
        task = asyncio.ensure_future(own.submit(["a", "b", "c", "d"]))
        await waiting(own, 4)
        gate.open.set()
        return await task

    assert occupied(gate, scenario, observe_queue=seen.append) == ["A", "B", "C", "D"]
    # The first one alone, then four of which three fit into a batch.
    assert seen == [1, 0, 4, 1, 0]
