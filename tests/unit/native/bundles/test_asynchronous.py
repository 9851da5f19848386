"""Translation in asyncio: the same results, decoded together; cancelled, refused, forked."""

import asyncio
import gc
import os
import threading
import weakref

import pytest
from native_bundles import with_runtime

import fairseq_hrt
from fairseq_hrt.native.bundles import asynchronous
from fairseq_hrt.native.bundles.batching import QueueFull
from fairseq_hrt.native.bundles.translation import raw_text

LINES = ["a b c", "", "d", "e f g h i", "b a"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("asynchronous") / "bundle"
    with_runtime(folder, "autoregressive")
    return fairseq_hrt.from_pretrained(folder, engine="native", threads=1)


@pytest.fixture
def batches(model, monkeypatch):
    """The lines of each call of the decoder, and whether details were asked for."""
    found, translate = [], model.translate

    def watched(lines, **options):
        found.append(([raw_text(line) for line in lines], options.get("details", False)))
        return translate(lines, **options)

    monkeypatch.setattr(model, "translate", watched)
    return found


def test_calls_at_the_same_time_share_batches_and_find_the_same(model, batches):
    async def run():
        return await asyncio.gather(
            *map(model.translate_async, LINES), model.translate_async(LINES, beam=2)
        )

    *single, several = asyncio.run(run())
    assert single == [model.translate([line])[0] for line in LINES]
    assert several == fairseq_hrt.from_pretrained(model.bundle.folder).translate(LINES, beam=2)
    assert len(batches[:-5]) <= 4 < len(LINES)


def test_calls_with_equal_glossaries_share_batches(model, batches):
    async def run():
        # As each request of a server makes its own.
        given = [model.translate_async(line, glossary={"a": "x", "b": "y"}) for line in LINES]
        return await asyncio.gather(*given)

    found = asyncio.run(run())
    shared = sum(1 for lines, _ in batches if set(lines) & set(LINES[:1] + LINES[2:]))
    assert shared < len(LINES) - 1
    expected = [model.translate([line], glossary={"a": "x", "b": "y"})[0] for line in LINES]
    assert found == expected


def test_details_single_lines_and_nothing(model, batches):
    async def run():
        return (
            await model.translate_async("a b", details=True),
            await model.translate_async([]),
            await model.translate_async("a " * 600),
        )

    detailed, nothing, long = asyncio.run(run())
    # Scores are computed only for those who want them.
    (_, first), *others = batches
    assert first and others and not any(details for _, details in others)
    expected = model.translate("a b", details=True)
    assert (detailed.text, detailed.score, detailed.tokens) == (
        expected.text, expected.score, expected.tokens,
    )  # fmt: skip
    assert nothing == [] and long == model.translate("a " * 600)


def test_what_is_refused_reaches_its_caller_alone(model, monkeypatch):
    async def run():
        return await asyncio.gather(
            model.translate_async("a", nonsense=1), model.translate_async("a"),
            return_exceptions=True,
        )  # fmt: skip

    refused, found = asyncio.run(run())
    assert isinstance(refused, ValueError) and "nonsense" in str(refused)
    assert found == model.translate("a")
    with pytest.raises(TypeError, match="line 0 is 3, .* give strings"):
        asyncio.run(model.translate_async([3]))
    with pytest.raises(TypeError, match=r"translate_async\(\) takes raw lines, not lines that"):
        asyncio.run(model.translate_async(["a", *model.prepare("b")]))
    for name in ("batch_size", "progress", "cancelled", "given"):
        with pytest.raises(TypeError, match=f"translate_async takes no {name}, .*: leave it out"):
            asyncio.run(model.translate_async([], **{name: None}))
    monkeypatch.setattr(asynchronous, "QUEUE", 1)
    del model._asynchronous
    with pytest.raises(QueueFull):
        asyncio.run(model.translate_async(["a", "b"]))
    del model._asynchronous


def test_a_model_that_nobody_holds_is_freed_with_its_threads(model):
    own = fairseq_hrt.from_pretrained(model.bundle.folder, engine="native", threads=1)
    asyncio.run(own.translate_async("a"))
    threads, alive = own._asynchronous._queue()._threads, weakref.ref(own)
    entered, go_on, translate = threading.Event(), threading.Event(), type(own).translate

    def slow(lines, **options):
        entered.set()
        assert go_on.wait(10)
        return translate(alive(), lines, **options)

    own.translate = slow

    async def cancelled(holder):
        call = asyncio.ensure_future(holder.pop().translate_async("a"))
        while not entered.is_set():
            await asyncio.sleep(0.001)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)

    holder = [own]
    del own
    # The thread that decodes may be the last to hold it.
    asyncio.run(cancelled(holder))
    go_on.set()
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()
    assert alive() is None


def test_a_refused_call_holds_no_model(model):
    own = fairseq_hrt.from_pretrained(model.bundle.folder, engine="native", threads=1)
    with pytest.raises(ValueError, match="nonsense"):
        asyncio.run(own.translate_async("a", nonsense=1))
    threads, alive = own._asynchronous._queue()._threads, weakref.ref(own)
    del own
    for thread in threads:
        # The decoder's thread may still hold the error, and so the model, while the caller has it.
        for _ in range(100):
            gc.collect()
            thread.join(0.1)
            if not thread.is_alive():
                break
        assert not thread.is_alive()
    assert alive() is None


def test_a_call_whose_time_is_over_leaves_the_queue(model, monkeypatch):
    entered, go_on, translate = threading.Event(), threading.Event(), model.translate

    def slow(lines, **options):
        entered.set()
        assert go_on.wait(10)
        return translate(lines, **options)

    monkeypatch.setattr(model, "translate", slow)

    async def run():
        first = asyncio.ensure_future(model.translate_async("a"))
        while not entered.is_set():
            await asyncio.sleep(0.001)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(model.translate_async("b"), 0.05)
        assert model._asynchronous._queue().waiting == 0
        go_on.set()
        return await first

    assert asyncio.run(run()) == translate("a")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_process_has_a_queue_of_its_own(model):
    expected = asyncio.run(model.translate_async(LINES))
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if asyncio.run(model.translate_async(LINES)) == expected else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def answered(application, body, hangs_up=False, cancelled=None):
    """Status and body of an ASGI application's answer, None where it sends none; no task is left.

    Args:
        hangs_up: whether the client does, right after the body.
        cancelled: seconds after which the server cancels the application.
    """
    sent, parts = [], [{"type": "http.request", "body": body}]

    async def receive():
        if not parts and not hangs_up:
            await asyncio.Event().wait()
        return parts.pop() if parts else {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)

    async def run():
        call = asyncio.create_task(application({"type": "http"}, receive, send))
        await asyncio.wait({call}, timeout=cancelled)
        if cancelled is not None:
            call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        # What is cancelled ends within a few turns; the end of the loop would cancel the rest.
        for _ in range(9):
            await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(run())
    return (sent[0]["status"], sent[1]["body"].decode()) if sent else None


def test_the_application_of_the_manual(model):
    from pathlib import Path

    text = (Path(__file__).resolve().parents[4] / "docs" / "python.md").read_text()
    block = next(part for part in text.split("```python\n") if "def application" in part)
    names = {}
    exec(block.split("```")[0], names)

    application = names["application"]
    status, body = answered(application(model), b"a b")
    assert (status, body) == (200, f'"{model.translate("a b")}"')
    assert answered(application(model, seconds=0), b"a b") == (503, '"no time left"')
    assert answered(application(model), b"\xff")[0] == 400
    ended = []

    class Slow:
        async def translate_async(self, line):
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                ended.append(line)
                raise

    class Full:
        async def translate_async(self, line):
            raise names["QueueFull"]("too many lines")

    assert answered(application(Full()), b"a") == (503, '"too many lines"')
    assert answered(application(Slow()), b"a", hangs_up=True) is None and ended == ["a"]
    assert answered(application(Slow()), b"b", cancelled=0.01) is None and ended == ["a", "b"]
