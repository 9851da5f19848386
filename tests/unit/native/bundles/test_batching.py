"""The queue: company of similar length, nobody forgotten, limits."""

import asyncio
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_hrt.native.bundles.batching import (
    AHEAD,
    LONG,
    OLDEST,
    Batcher,
    QueueClosed,
    QueueFull,
)


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
    usual = {
        "max_batch": 3, "max_queue": 100, "wait": 0.0, "prepare": lambda sentence: [sentence],
        "join": lambda sentence, results, options: results,
    }  # fmt: skip
    return Batcher(gate, **{**usual, **settings})


async def waiting(own, count):
    while own.waiting < count:
        await asyncio.sleep(0.001)


async def ready(own, count):
    """Until so many sentences have been prepared."""
    while own._pieces < count:
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
        texts = ["a" * 30, "b", "c" * 29, "d" * 2, "e" * 28, "f" * 3]
        tasks = [asyncio.ensure_future(own.submit([text])) for text in texts]
        await ready(own, 6)
        gate.open.set()
        return [await task for task in tasks]

    answers = occupied(gate, scenario)
    assert answers == [
        [text.upper()] for text in ["a" * 30, "b", "c" * 29, "d" * 2, "e" * 28, "f" * 3]
    ]
    assert [sorted(map(len, sentences)) for sentences, _ in gate.batches] == [
        [5],
        [28, 29, 30],
        [1, 2, 3],
    ]


def test_a_long_sentence_does_not_starve(gate):
    async def scenario(own):
        long = asyncio.ensure_future(own.submit(["x" * 500]))
        short = [asyncio.ensure_future(own.submit(["y"])) for _ in range(3 * OLDEST)]
        await ready(own, 3 * OLDEST + 1)
        gate.open.set()
        await asyncio.gather(long, *short)

    occupied(gate, scenario)
    assert ["x" * 500 in sentences for sentences, _ in gate.batches].index(True) == OLDEST - 1


def test_other_options_are_another_batch(gate):
    async def scenario(own):
        tasks = [asyncio.ensure_future(own.submit(["a", "b"], beam=beam)) for beam in (1, 2)]
        await ready(own, 4)
        gate.open.set()
        return await asyncio.gather(*tasks)

    assert occupied(gate, scenario) == [["A", "B"], ["A", "B"]]
    assert [options for _, options in gate.batches[1:]] == [{"beam": 1}, {"beam": 2}]


def test_a_full_queue_refuses(gate):
    async def scenario(own):
        kept = asyncio.ensure_future(own.submit(["a", "b"]))
        await ready(own, 2)
        with pytest.raises(QueueFull, match="2 sentences may wait"):
            await own.submit(["c"])
        gate.open.set()
        return await kept

    assert occupied(gate, scenario, max_queue=2) == ["A", "B"]


def test_more_than_a_queue_holds_never_fits(gate):
    async def scenario(own):
        with pytest.raises(QueueFull, match="3 sentences do not fit into a queue of 2: give fewer"):
            await own.submit(["a", "b", "c"])
        gate.open.set()

    occupied(gate, scenario, max_queue=2)


def test_what_was_given_up_is_not_decoded(gate):
    async def scenario(own):
        given_up = asyncio.ensure_future(own.submit(["nobody waits"]))
        await ready(own, 1)
        given_up.cancel()
        await asyncio.gather(given_up, return_exceptions=True)
        assert own.waiting == 0
        gate.open.set()
        return await own.submit(["next"])

    assert occupied(gate, scenario) == ["NEXT"]
    assert ["nobody waits"] not in [sentences for sentences, _ in gate.batches]


def test_a_batch_for_which_nobody_waits_need_not_be_decoded_to_its_end():
    """The decoder asks; one that still waits is enough to continue."""
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
        requests = [
            asyncio.ensure_future(own.submit(sentences)) for sentences in (["a", "b"], ["c"])
        ]
        while not entered.is_set():
            await asyncio.sleep(0.001)
        for request in requests:
            assert not own.given_up()
            request.cancel()
            await asyncio.gather(request, return_exceptions=True)
        assert own.given_up()
        return await own.submit(["next"])

    own = batcher(decode, max_batch=8, max_queue=8, wait=0.05)
    assert asyncio.run(run()) == ["NEXT"]
    own.close(5)
    assert [sorted(batch) for batch in batches] == [
        ["a", "b", "c"],
        ["next"],
    ], "its sentences are not tried alone"


def test_an_error_reaches_everybody_in_the_batch_and_nobody_else():
    def decode(sentences, options):
        if options.get("bad"):
            raise ValueError("not this one")
        return list(sentences)

    async def run():
        own = batcher(decode, max_batch=8, max_queue=8, wait=0.0)
        good, bad = await asyncio.gather(
            own.submit(["a"]), own.submit(["b"], bad=True), return_exceptions=True
        )
        own.close(5)
        return good, bad

    good, bad = asyncio.run(run())
    assert good == ["a"] and isinstance(bad, ValueError)


def test_closing_finishes_what_waits_and_refuses_the_rest(gate):
    async def scenario(own):
        last = asyncio.ensure_future(own.submit(["last"]))
        await ready(own, 1)
        closing = asyncio.get_running_loop().run_in_executor(None, own.close, 5)
        await asyncio.sleep(0.05)
        with pytest.raises(QueueClosed):
            await own.submit(["too late"])
        gate.open.set()
        await closing
        return await last

    assert occupied(gate, scenario) == ["LAST"]


def test_a_sentence_that_fails_takes_no_other_with_it(gate):
    gate.open.set()

    def decode(sentences, options):
        if "bad" in sentences:
            raise RuntimeError("this one")
        return gate(sentences, options)

    async def run():
        own = batcher(decode, max_batch=8, max_queue=8, wait=0.2)
        found = await asyncio.gather(
            *(own.submit([text]) for text in ("a", "bad", "b")), return_exceptions=True
        )
        own.close(5)
        return found

    first, failed, second = asyncio.run(run())
    assert (first, second) == (["A"], ["B"]) and isinstance(failed, RuntimeError)


def test_the_length_of_the_queue_is_told(gate):
    seen = []

    async def scenario(own):
        task = asyncio.ensure_future(own.submit(["a", "b", "c", "d"]))
        await ready(own, 4)
        gate.open.set()
        return await task

    assert occupied(gate, scenario, observe_queue=seen.append) == ["A", "B", "C", "D"]
    # The first one alone, then four of which three fit into a batch.
    assert seen == [1, 0, 4, 1, 0]


class Words:
    """Prepares sentences into pieces of three words; "bad" cannot be prepared. Waits at "slow" to
    be let through."""

    def __init__(self):
        self.seen, self.entered, self.open = [], threading.Event(), threading.Event()

    def __call__(self, sentence):
        self.seen.append(sentence)
        if sentence == "slow":
            self.entered.set()
            assert self.open.wait(10)
        if sentence == "bad":
            raise RuntimeError("cannot be prepared")
        words = sentence.split()
        return [words[place : place + 3] for place in range(0, len(words), 3)]


def decode_words(pieces, options):
    return [" ".join(piece).upper() for piece in pieces]


def preparing(scenario):
    """Runs a scenario while the sentence "slow" is being prepared."""

    async def run():
        words = Words()
        own = batcher(
            decode_words, prepare=words, join=lambda sentence, results, options: " ".join(results)
        )
        slow = asyncio.ensure_future(own.submit(["slow"]))
        while not words.entered.is_set():
            await asyncio.sleep(0.001)
        result = await scenario(own, words, slow)
        words.open.set()
        await asyncio.gather(slow, return_exceptions=True)
        assert own.waiting == 0
        own.close(5)
        return result, words.seen

    return asyncio.run(run())


def submitted(own, *requests):
    return [asyncio.ensure_future(own.submit(request)) for request in requests]


@pytest.mark.parametrize("length", [3, 90])
def test_many_sentences_hold_up_nobody(length):
    """Whoever has had least goes first: between a request of a hundred sentences and a later one
    stands the batch that is being decoded."""
    other, batches = "o" * length, []
    entered, proceed = threading.Event(), threading.Event()

    def decode(sentences, options):
        batches.append(list(sentences))
        if len(batches) == 3:
            entered.set()
            assert proceed.wait(10)
        return list(sentences)

    async def run():
        own = batcher(decode)
        many = asyncio.ensure_future(own.submit(["m" * 100] * 100))
        while not entered.is_set():
            await asyncio.sleep(0.001)
        one = asyncio.ensure_future(own.submit([other]))
        while len(own._requests) < 2 or not own._requests[-1].pieces:
            await asyncio.sleep(0.001)
        proceed.set()
        assert await one == [other]
        await many
        own.close(5)

    asyncio.run(run())
    assert [number for number, sentences in enumerate(batches) if other in sentences] == [3]


def test_very_long_sentences_hold_up_nobody(gate):
    """Of none of them anything has been decoded, and they came first."""

    async def scenario(own):
        tasks = submitted(own, *(["l" * 256] for _ in range(5)), ["five words"])
        await ready(own, 6)
        gate.open.set()
        await asyncio.gather(*tasks)

    occupied(gate, scenario, max_batch=32)
    assert [len(sentences) for sentences, _ in gate.batches[1:]] == [1] * 6 and gate.batches[1][
        0
    ] == ["five words"]


def test_a_short_request_is_not_decoded_with_long_ones(gate):
    long, short = "l" * (LONG + 1), "s" * LONG

    async def scenario(own):
        tasks = submitted(own, ["a"], [long], [short])
        await ready(own, 3)
        gate.open.set()
        await asyncio.gather(*tasks)

    occupied(gate, scenario, max_batch=8)
    assert [sentences for sentences, _ in gate.batches[1:]] == [["a", short], [long]]


def test_a_batch_is_limited_in_work(gate):
    async def scenario(own):
        tasks = submitted(
            own, *(["x" * length] for length in (50, 50, 50, 30, LONG, LONG, LONG, 300))
        )
        await ready(own, 8)
        gate.open.set()
        await asyncio.gather(*tasks)

    occupied(gate, scenario)
    assert [list(map(len, texts)) for texts, _ in gate.batches[1:]] == [
        [30, LONG, LONG],
        [LONG, 50],
        [50, 50],
        [300],
    ]


def test_requests_of_the_same_size_take_turns(gate):
    """And the first one is not decoded to its end before the second one begins."""

    async def scenario(own):
        tasks = submitted(own, ["a" * 50] * 3, ["b" * 60] * 3)
        await ready(own, 6)
        gate.open.set()
        await asyncio.gather(*tasks)

    occupied(gate, scenario, max_batch=1)
    assert [sentences[0][0] for sentences, _ in gate.batches[1:]] == [*"ababab"]


def test_short_sentences_are_prepared_first():
    async def scenario(own, words, slow):
        tasks = submitted(own, ["a long one"] * 3, ["a b"], ["c"])
        await waiting(own, 6)
        words.open.set()
        return await asyncio.gather(*tasks)

    found, seen = preparing(scenario)
    assert found == [["A LONG ONE"] * 3, ["A B"], ["C"]]
    assert seen == ["slow", "c", "a b", *["a long one"] * 3]


def test_short_ones_cannot_hold_up_a_long_one_for_ever():
    async def scenario(own, words, slow):
        tasks = submitted(own, ["the long one"], *(["x"] for _ in range(20)))
        await waiting(own, 22)
        words.open.set()
        return await asyncio.gather(*tasks)

    _, seen = preparing(scenario)
    assert seen.index("the long one") == OLDEST - 1


def test_new_requests_cannot_hold_up_one_that_has_had_much(gate):
    """Of those for which less was decoded some are always there."""

    async def scenario(own):
        tasks = submitted(own, ["l" * 40] * 9, *(["s"] for _ in range(90)))
        await ready(own, 99)
        gate.open.set()
        await asyncio.gather(*tasks)

    occupied(gate, scenario)
    long_ones = [
        number for number, (sentences, _) in enumerate(gate.batches) if "l" * 40 in sentences
    ]
    assert max(after - before for before, after in zip(long_ones, long_ones[1:])) <= OLDEST


def test_what_was_given_up_is_not_prepared():
    async def scenario(own, words, slow):
        tasks = submitted(own, ["nobody waits"] * 5, ["next"])
        await waiting(own, 7)
        for task in (slow, tasks[0]):
            task.cancel()
        await asyncio.gather(slow, tasks[0], return_exceptions=True)
        assert own.waiting == 2, "the one in preparation, and the next"
        words.open.set()
        return await tasks[1]

    assert preparing(scenario) == (["NEXT"], ["slow", "next"])


def test_what_cannot_be_prepared_takes_nobody_with_it():
    async def scenario(own, words, slow):
        tasks = submitted(own, ["a", "bad", "not prepared any more"], ["b c"])
        await waiting(own, 5)
        words.open.set()
        return await asyncio.gather(slow, *tasks, return_exceptions=True)

    (slow, failed, other), _ = preparing(scenario)
    assert (slow, other) == (["SLOW"], ["B C"])
    assert isinstance(failed, RuntimeError) and str(failed) == "cannot be prepared"


def test_no_more_is_prepared_ahead_than_a_decoder_can_choose_from(gate):
    seen = []

    def prepare(sentence):
        seen.append(sentence)
        return [sentence]

    async def scenario(own):
        task = asyncio.ensure_future(own.submit(["m"] * 50))
        other = asyncio.ensure_future(own.submit(["other one"]))
        while len(seen) < 1 + 3 * AHEAD + 1:
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.05)
        prepared = seen[:]
        gate.open.set()
        await asyncio.gather(task, other)
        return prepared

    assert sorted(occupied(gate, scenario, prepare=prepare)) == [
        "first",
        *["m"] * 3 * AHEAD,
        "other one",
    ]
    assert len(seen) == 52


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.lists(
            st.text("abc ", min_size=1, max_size=12).filter(str.strip), min_size=1, max_size=5
        ),
        min_size=1,
        max_size=6,
    )
)
def test_answers_have_the_order_of_what_was_asked(requests):
    async def run():
        own = batcher(
            decode_words, prepare=Words(), join=lambda sentence, results, options: " ".join(results)
        )
        found = await asyncio.gather(*(own.submit(request) for request in requests))
        own.close(5)
        return found, own.waiting

    expected = [
        [" ".join(sentence.upper().split()) for sentence in request] for request in requests
    ]
    assert asyncio.run(run()) == (expected, 0)


def test_what_cannot_be_joined_is_an_error_of_its_sentence():
    def join(sentence, results, options):
        raise ValueError(f"{sentence}: {results}, {options}")

    async def run():
        own = batcher(decode_words, prepare=Words(), join=join)
        found = await asyncio.gather(
            own.submit(["a b c d"], beam=2), own.submit(["e"]), return_exceptions=True
        )
        own.close(5)
        return found

    error, other = asyncio.run(run())
    assert str(error) == "a b c d: ['A B C', 'D'], {'beam': 2}" and other == ["E"]
