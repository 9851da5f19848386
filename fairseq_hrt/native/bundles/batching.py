"""A queue in which sentences of different requests are prepared in turn and decoded together.

One thread prepares sentences: it splits each into the pieces that a decoder takes, usually one,
several if the sentence is very long. Another thread decodes. Many pieces cost a decoder little more
than one, so those that are ready within a few milliseconds share a batch. These rules make it fair:

* Small requests go first. The sentence to be prepared next is the shortest of those that are next
  in their requests; a batch begins with a piece of the request that has had least decoded, this
  piece included. Every eighth time it is the oldest request's turn, whatever its size, so that new
  requests cannot hold it up for ever.
* The rest of a batch is filled with one piece of each other request, then with their second pieces,
  and so on, those of similar length first. None is much longer than the first piece, since a batch
  takes as long as its longest piece.
* A batch has a limited number of pieces and amount of work, since no other request interrupts it.

So a short request waits for little more than the batch that is being decoded, however large the
other requests are. Once a request is given up, nothing more of it is prepared or decoded. If a
batch fails, each of its pieces is tried alone. A translation does not depend on its batch: the
engines guarantee that, and their tests check it.
"""

import asyncio
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Callable, Deque, Dict, List, Optional, Sequence, Tuple

Options = Tuple[Tuple[str, Any], ...]
# A sentence → its pieces, at least one; ``len()`` of a piece is the number of its subwords.
Prepare = Callable[[str], Sequence[Any]]
# (pieces, decoding options) → one result for each piece.
Decode = Callable[[Sequence[Any], Dict[str, Any]], Sequence[Any]]
# (sentence, results of its pieces, decoding options) → its result.
Join = Callable[[str, List[Any], Dict[str, Any]], Any]
# Subwords of a long sentence. A batch has room for ``max_batch`` pieces of this length, or for
# fewer longer ones: the work of a piece, by which room is counted, grows like the square of its
# length. With the usual settings one piece of 256 subwords fills a batch.
LONG = 45
# Every so many turns it is the oldest request's turn.
OLDEST = 8
# Batches for which pieces of one request are prepared ahead, so that there are some of similar
# length to choose from.
AHEAD = 4


class QueueFull(RuntimeError):
    """The queue has no room for further sentences."""


class QueueClosed(RuntimeError):
    """The queue is closed and accepts no more sentences."""


@dataclass(eq=False)
class _Request:
    """The sentences of one call of :meth:`Batcher.submit`.

    Attributes:
        options: the decoding options, as sorted pairs (name, value).
        loop: the event loop that waits for the results.
        sentences: the sentences that still have to be prepared, that is, split into pieces.
        pieces: the pieces of prepared sentences that the decoder has not taken yet.
        taken: number of subwords in the pieces that the decoder has taken.
        given_up: whether nobody waits for the results any more.
    """

    options: Options
    loop: asyncio.AbstractEventLoop
    sentences: "Deque[_Sentence]" = field(default_factory=deque)
    pieces: "List[_Piece]" = field(default_factory=list)
    taken: int = 0
    given_up: bool = False


@dataclass(eq=False)
class _Sentence:
    """A sentence of a request.

    Attributes:
        text: the sentence.
        request: the request that it belongs to.
        answer: the future of its result, in the request's event loop.
        since: when it was submitted, by :func:`time.monotonic`.
        to_take: number of its pieces that wait for the decoder.
        to_decode: number of its pieces without a result.
        results: the results of its pieces, in their order; None for those not decoded yet.
    """

    text: str
    request: _Request
    answer: "asyncio.Future[Any]"
    since: float = field(default_factory=time.monotonic)
    to_take: int = 0
    to_decode: int = 0
    results: List[Any] = field(default_factory=list)


@dataclass(eq=False)
class _Piece:
    """A part of a sentence that is decoded as a whole.

    Attributes:
        sentence: the whole sentence.
        number: the index of the piece among the sentence's pieces, from 0.
        content: the piece as :class:`Batcher`'s ``prepare`` made it, for the decoder.
    """

    sentence: _Sentence
    number: int
    content: Any


class Batcher:
    """A queue of sentences, with the thread that prepares them and the thread that decodes them.

    Args:
        decode: called with (pieces of a batch, decoding options), returns a result for each piece;
            called in one thread only.
        max_batch: the most pieces in a batch.
        max_queue: the most sentences that may wait.
        wait: seconds that the first sentence of a batch waits for others to share the batch.
        prepare: splits a sentence into pieces, whose ``len()`` measures their work; called in one
            thread only.
        join: called with (sentence, results of its pieces, decoding options) if there are several
            pieces; returns the result of the sentence.
        observe: called after each batch with (number of its pieces, seconds that it took).
        observe_queue: called with the number of waiting sentences whenever it has changed.
    """

    def __init__(
        self,
        decode: Decode,
        *,
        max_batch: int,
        max_queue: int,
        wait: float,
        prepare: Prepare,
        join: Join,
        observe: Callable[[int, float], None] = lambda sentences, seconds: None,
        observe_queue: Callable[[int], None] = lambda waiting: None,
    ) -> None:
        self._prepare, self._decode, self._join = prepare, decode, join
        self._observe, self._observe_queue = observe, observe_queue
        self._max_batch, self._max_queue, self._wait = max_batch, max_queue, wait
        # The oldest first.
        self._requests: List[_Request] = []
        self._waiting = 0
        self._prepared = self._batches = 0
        self._closed = False
        # The pieces that are being decoded.
        self._batch: List[_Piece] = []
        # Reentrant: close() may be called by the garbage collector, within any other method.
        lock = threading.RLock()
        # Notified when there may be something to prepare, or to decode.
        self._submitted, self._ready = threading.Condition(lock), threading.Condition(lock)
        self._threads = [
            threading.Thread(target=work, name=name, daemon=True)
            for work, name in (
                (self._prepare_sentences, "preparation"),
                (self._decode_pieces, "decoder"),
            )
        ]
        for thread in self._threads:
            thread.start()

    @property
    def waiting(self) -> int:
        """The number of sentences in the queue: those with a piece that the decoder has not taken
        yet."""
        return self._waiting

    def given_up(self) -> bool:
        """Whether nobody waits any more for the sentences of the batch that is being decoded: their
        time is over, or their clients have gone."""
        return all(piece.sentence.answer.done() for piece in self._batch)

    async def submit(self, sentences: Sequence[str], **options: Any) -> List[Any]:
        """Puts sentences into the queue, waits until all are decoded, and returns their results in
        the order of the sentences. ``options`` are the decoding options for ``decode`` and
        ``join``.

        Raises:
            QueueFull: the queue has no room for all of the sentences.
            QueueClosed: :meth:`close` was called.
            Exception: any error that ``prepare``, ``decode`` or ``join`` raised.
        """
        loop = asyncio.get_running_loop()
        request = _Request(tuple(sorted(options.items())), loop)
        request.sentences.extend(
            _Sentence(sentence, request, loop.create_future()) for sentence in sentences
        )
        answers = [sentence.answer for sentence in request.sentences]
        with self._submitted:
            if self._closed:
                raise QueueClosed("the queue is closed and takes no more sentences; make another")
            if len(answers) > self._max_queue:
                raise QueueFull(
                    f"{len(answers)} sentences do not fit into a queue of {self._max_queue}: give"
                    " fewer at a time"
                )
            if self._waiting + len(answers) > self._max_queue:
                raise QueueFull(
                    f"the queue is full: at most {self._max_queue} sentences may wait; try again"
                    " later"
                )
            self._requests.append(request)
            self._count(len(answers))
            self._submitted.notify()
        try:
            return list(await asyncio.gather(*answers))
        finally:
            self._give_up(request)

    def close(self, patience: float = 0.0) -> None:
        """Refuses further sentences; the threads end when the waiting sentences are decoded.
        Returns when they have ended, or after ``patience`` seconds in all."""
        with self._submitted:
            self._closed = True
            self._notify()
        deadline = time.monotonic() + patience
        for thread in set(self._threads) - {threading.current_thread()}:
            thread.join(max(deadline - time.monotonic(), 0.0))

    def _give_up(self, request: _Request) -> None:
        """Removes a request from the queue, with those of its sentences and pieces that still wait:
        the request was answered, or nobody waits for its results any more."""
        with self._submitted:
            request.given_up = True
            self._requests.remove(request)
            self._count(-len(request.sentences) - len({piece.sentence for piece in request.pieces}))

    def _count(self, more: int) -> None:
        """Adds ``more``, which may be negative, to the number of waiting sentences."""
        self._waiting += more
        if more:
            self._observe_queue(self._waiting)
        if self._ended:
            self._notify()

    @property
    def _ended(self) -> bool:
        return self._closed and not self._waiting

    def _notify(self) -> None:
        self._submitted.notify()
        self._ready.notify()

    # ------------------------------------------------------------------ the thread that prepares

    def _prepare_sentences(self) -> None:
        while True:
            with self._submitted:
                while (sentence := self._next_sentence()) is None:
                    if self._ended:
                        return
                    self._submitted.wait()
            contents: Sequence[Any] = ()
            try:
                contents = self._prepare(sentence.text)
            except Exception as error:  # whatever it is, somebody waits for an answer
                _resolve(sentence, error=error)
            with self._ready:
                self._add_pieces(sentence, contents)

    def _next_sentence(self) -> Optional[_Sentence]:
        """Takes the next sentence to prepare out of its request and returns it. Requests with many
        prepared pieces are skipped for now; None if no other request has sentences to prepare."""
        ahead = AHEAD * self._max_batch
        waiting = [
            request
            for request in self._requests
            if request.sentences and len(request.pieces) < ahead
        ]
        if not waiting:
            return None
        self._prepared += 1
        return _turn(
            waiting, self._prepared, lambda request: len(request.sentences[0].text)
        ).sentences.popleft()

    def _add_pieces(self, sentence: _Sentence, contents: Sequence[Any]) -> None:
        request = sentence.request
        if request.given_up or not contents:
            self._count(-1)
            return
        sentence.to_take = sentence.to_decode = len(contents)
        sentence.results = [None] * len(contents)
        request.pieces += [
            _Piece(sentence, number, content) for number, content in enumerate(contents)
        ]
        # The decoder is woken for the first pieces and for a full batch, not in between.
        pieces = self._pieces
        if pieces == len(contents) or pieces >= self._max_batch:
            self._ready.notify()

    # ------------------------------------------------------------------ the thread that decodes

    @property
    def _pieces(self) -> int:
        return sum(len(request.pieces) for request in self._requests)

    def _decode_pieces(self) -> None:
        while True:
            with self._ready:
                while not self._pieces:
                    if self._ended:
                        return
                    self._ready.wait()
                # Only the first batch after a pause waits for more: under load pieces are waiting.
                while 0 < self._pieces < self._max_batch and not self._closed:
                    oldest = next(request for request in self._requests if request.pieces)
                    remaining = oldest.pieces[0].sentence.since + self._wait - time.monotonic()
                    if remaining <= 0:
                        break
                    self._ready.wait(remaining)
                batch = self._take()
            if batch:
                self._answer(batch)
            # Until the next batch, the pieces' errors would keep all objects of their tracebacks.
            self._batch = batch = []

    def _take(self) -> List[_Piece]:
        """Takes a batch out of the queue: the first piece of the request whose turn it is, and as
        many other pieces with the same decoding options as fit. Empty if no piece waits."""
        waiting = [request for request in self._requests if request.pieces]
        if not waiting:
            return []
        self._batches += 1
        # Pieces of at most LONG subwords cost the same, so that usual sentences keep their order.
        first = _turn(
            waiting,
            self._batches,
            lambda request: request.taken + max(LONG, len(request.pieces[0].content)),
        )
        size = len(first.pieces[0].content)
        longest = max(2 * size, LONG)
        ranked: List[Tuple[int, int, _Piece]] = []
        for request in waiting:
            if request.options == first.options:
                near = [
                    (abs(len(piece.content) - size), piece)
                    for piece in request.pieces
                    if len(piece.content) <= longest
                ]
                # Stable: of equally long ones the older come before.
                near.sort(key=lambda entry: entry[0])
                ranked += [(rank, distance, piece) for rank, (distance, piece) in enumerate(near)]
        ranked.sort(key=lambda entry: (entry[2] is not first.pieces[0], *entry[:2]))
        batch: List[_Piece] = []
        room = LONG**2 * self._max_batch
        for _, _, piece in ranked:
            work = len(piece.content) ** 2
            if not batch or (len(batch) < self._max_batch and work <= room):
                batch.append(piece)
                room -= work
        self._remove(batch)
        return batch

    def _remove(self, batch: List[_Piece]) -> None:
        """Takes the pieces of a batch out of the queue."""
        taken = set(map(id, batch))
        for request in {piece.sentence.request for piece in batch}:
            request.pieces = [piece for piece in request.pieces if id(piece) not in taken]
        for piece in batch:
            piece.sentence.to_take -= 1
            piece.sentence.request.taken += len(piece.content)
        self._count(-len({piece.sentence for piece in batch if not piece.sentence.to_take}))
        if any(request.sentences for request in self._requests):
            self._submitted.notify()

    def _answer(self, batch: List[_Piece]) -> None:
        # Pieces of sentences for which nobody waits any more are not decoded.
        self._batch = batch = [piece for piece in batch if not piece.sentence.answer.done()]
        if not batch:
            return
        start = time.monotonic()
        try:
            results = self._decode(
                [piece.content for piece in batch], dict(batch[0].sentence.request.options)
            )
            if len(results) != len(batch):
                raise RuntimeError(
                    f"the decoder returned {len(results)} results for {len(batch)} pieces of"
                    " sentences, not one for each"
                )
        except Exception as error:  # whatever it is, somebody waits for an answer
            if len(batch) > 1:
                # One of them may be the reason; the others must not fail with it.
                for piece in batch:
                    self._answer([piece])
            else:
                _resolve(batch[0].sentence, error=error)
            return
        self._observe(len(batch), time.monotonic() - start)
        for piece, result in zip(batch, results):
            self._keep(piece, result)

    def _keep(self, piece: _Piece, result: Any) -> None:
        """Stores the result of a piece. With the last result of its sentence, joins the results and
        answers the sentence."""
        sentence = piece.sentence
        sentence.results[piece.number] = result
        sentence.to_decode -= 1
        if sentence.to_decode:
            return
        try:
            results = sentence.results
            options = dict(sentence.request.options)
            joined = result if len(results) == 1 else self._join(sentence.text, results, options)
        except Exception as error:  # whatever it is, somebody waits for an answer
            _resolve(sentence, error=error)
        else:
            _resolve(sentence, result=joined)


def _turn(waiting: Sequence[_Request], number: int, cost: Callable[[_Request], int]) -> _Request:
    """The request whose turn it is: in every OLDEST-th turn the oldest, which is the first of
    ``waiting``, else the one with the lowest ``cost``. ``number`` is that of the turn, from 1."""
    return waiting[0] if number % OLDEST == 0 else min(waiting, key=cost)


def _resolve(sentence: _Sentence, *, result: Any = None, error: Any = None) -> None:
    """Answers a sentence with its result or, if that is not None, an exception ``error``, in its
    request's event loop. A sentence for which nobody waits any more stays as it is."""

    def set_answer() -> None:
        if not sentence.answer.done():
            if error is None:
                sentence.answer.set_result(result)
            else:
                sentence.answer.set_exception(error)

    try:
        sentence.request.loop.call_soon_threadsafe(set_answer)
    except RuntimeError:
        # Its loop is closed: the server went down while this batch was decoded, and nobody waits
        # any more.
        return
