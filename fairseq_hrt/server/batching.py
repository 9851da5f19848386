"""Sentences of different requests decoded together.

A decoder does many sentences at little more cost than one, so those that arrive within a few milliseconds share a batch. Sentences of
similar length go together, for a batch costs what its longest sentence costs; the one that has waited longest is always among them, so that
none waits for company of its length. Where a batch fails its sentences are tried one by one. What a sentence is translated to does not
depend on its batch: that is a property of the engines, and tested there.
"""

import asyncio
import threading
import time
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Sequence, Tuple

from .errors import RequestError

Options = Tuple[Tuple[str, Any], ...]
# (sentences, decoding options) → one result for each sentence.
Decode = Callable[[Sequence[str], Dict[str, Any]], Sequence[Any]]


@dataclass(eq=False)
class _Waiting:
    """A sentence in the queue; ``answer`` belongs to the loop of the request."""

    sentence: str
    options: Options
    loop: asyncio.AbstractEventLoop
    answer: "asyncio.Future[Any]"
    since: float = field(default_factory=time.monotonic)


class Batcher:
    """A queue of sentences and the thread that decodes them.

    Args:
        decode: decodes a batch; called in one thread only.
        max_batch: sentences of a batch.
        max_queue: sentences that may wait.
        wait: seconds that the first sentence of a batch waits for company.
        observe: called with (sentences of a batch, seconds) after each batch.
        observe_queue: called with the length of the queue whenever it has changed.
    """

    def __init__(
        self,
        decode: Decode,
        *,
        max_batch: int,
        max_queue: int,
        wait: float,
        observe: Callable[[int, float], None] = lambda sentences, seconds: None,
        observe_queue: Callable[[int], None] = lambda waiting: None,
    ) -> None:
        self._decode, self._observe, self._observe_queue = decode, observe, observe_queue
        self._max_batch, self._max_queue, self._wait = max_batch, max_queue, wait
        self._queue: List[_Waiting] = []
        self._changed = threading.Condition()
        self._closed = False
        self._batch: List[_Waiting] = []
        self._thread = threading.Thread(target=self._work, name="decoder", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Sentences in the queue."""
        return len(self._queue)

    def given_up(self) -> bool:
        """Whether nobody waits for the batch that is being decoded any more: their time is over, or their clients have gone."""
        return all(entry.answer.done() for entry in self._batch)

    async def submit(self, sentences: Sequence[str], **options: Any) -> List[Any]:
        """The results of some sentences, in their order.

        Raises:
            RequestError: the queue is full (429).
            Exception: what the decoder raised.
        """
        loop = asyncio.get_running_loop()
        key = tuple(sorted(options.items()))
        entries = [_Waiting(sentence, key, loop, loop.create_future()) for sentence in sentences]
        with self._changed:
            if self._closed:
                raise RequestError(503, "The server is shutting down", {"Retry-After": "5"})
            if len(self._queue) + len(entries) > self._max_queue:
                raise RequestError(429, "Too many requests: the queue is full, try again later", {"Retry-After": "1"})
            self._set_queue([*self._queue, *entries])
            self._changed.notify()
        try:
            return list(await asyncio.gather(*(entry.answer for entry in entries)))
        finally:
            # A request that was given up must not cost a decoder's time.
            with self._changed:
                gone = {id(entry) for entry in entries}
                self._set_queue([entry for entry in self._queue if id(entry) not in gone])

    def close(self, patience: float = 0.0) -> None:
        """Decodes what waits, for at most ``patience`` seconds, and ends the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(patience)

    # ------------------------------------------------------------------ the thread

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._queue and not self._closed:
                    self._changed.wait()
                if not self._queue:
                    return
                # Only the first batch after a pause waits: under load the company is there already.
                remaining = self._queue[0].since + self._wait - time.monotonic()
                while remaining > 0 and len(self._queue) < self._max_batch and not self._closed:
                    self._changed.wait(remaining)
                    if not self._queue:
                        break
                    remaining = self._queue[0].since + self._wait - time.monotonic()
                batch = self._take()
            if batch:
                self._answer(batch)

    def _take(self) -> List[_Waiting]:
        """The sentence that has waited longest and those with its options that are closest to its length."""
        if not self._queue:
            return []
        first = self._queue[0]
        company = [entry for entry in self._queue if entry.options == first.options]
        # Stable: of equally long ones the older come first.
        company.sort(key=lambda entry: (entry is not first, abs(len(entry.sentence) - len(first.sentence))))
        batch = company[: self._max_batch]
        taken = {id(entry) for entry in batch}
        self._set_queue([entry for entry in self._queue if id(entry) not in taken])
        return batch

    def _set_queue(self, entries: List[_Waiting]) -> None:
        changed = len(entries) != len(self._queue)
        self._queue = entries
        if changed:
            self._observe_queue(len(entries))

    def _answer(self, batch: List[_Waiting]) -> None:
        # Of a batch that was given up nobody is left.
        self._batch = batch = [entry for entry in batch if not entry.answer.done()]
        if not batch:
            return
        start = time.monotonic()
        try:
            results = self._results(batch)
        except Exception as error:  # whatever it is, somebody waits for an answer
            if len(batch) > 1:
                # One of them may be the reason; the others must not fail with it.
                for entry in batch:
                    self._answer([entry])
            else:
                _resolve(batch[0], error=error)
            return
        self._observe(len(batch), time.monotonic() - start)
        for entry, result in zip(batch, results):
            _resolve(entry, result=result)

    def _results(self, batch: List[_Waiting]) -> Sequence[Any]:
        results = self._decode([entry.sentence for entry in batch], dict(batch[0].options))
        if len(results) != len(batch):
            raise RuntimeError(f"the decoder returned {len(results)} results for {len(batch)} sentences")
        return results


def _resolve(entry: _Waiting, *, result: Any = None, error: Any = None) -> None:
    """Answers a waiting request, if it still waits."""

    def set_answer() -> None:
        if not entry.answer.done():
            if error is None:
                entry.answer.set_result(result)
            else:
                entry.answer.set_exception(error)

    try:
        entry.loop.call_soon_threadsafe(set_answer)
    except RuntimeError:
        # Its loop is closed: the server went down while this batch was decoded, and nobody waits any more.
        return
