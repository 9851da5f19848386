"""Translation in asyncio: calls that are made at the same time are decoded together."""

import os
import threading
from typing import Any, Dict, List, Optional, Sequence, Union

from ..text.glossary import Glossary
from .batching import Batcher, QueueFull
from .translation import PreparedLine, join_pieces, require_lines

__all__ = ["AsyncTranslation", "QueueFull"]

# Lines decoded together, lines that may wait, and how long the first waits for company.
BATCH, QUEUE, SECONDS = 32, 4096, 0.003


class AsyncTranslation:
    """Translates lines for asyncio: all calls put their lines into one queue, and a thread decodes
    the lines that wait there, of whatever call, in one batch. A forked process gets a queue of its
    own.

    Args:
        translator: the :class:`.translator.Translator` that decodes the batches.
    """

    def __init__(self, translator: Any) -> None:
        self._translator, self._lock = translator, threading.Lock()
        self._batcher: Optional[Batcher] = None
        self._process = os.getpid()

    async def translate(
        self,
        lines: Union[str, Sequence[str]],
        *,
        details: bool = False,
        glossary: Optional[Glossary] = None,
        **decoding: Any,
    ) -> Any:
        """Puts lines into the queue, waits, and returns their translations; for arguments, result
        and errors see :meth:`.translator.Translator.translate_async`."""
        rows = [lines] if isinstance(lines, str) else list(lines)
        require_lines(rows)
        options: Dict[str, Any] = {name: _text(value) for name, value in decoding.items()}
        if glossary is not None:
            options["glossary"] = glossary
        found = await self._queue().submit(rows, **options) if rows else []
        results: List[Any] = found if details else [one.text for one in found]
        return results[0] if isinstance(lines, str) else results

    def close(self) -> None:
        """Lets the queue's threads end as soon as no more lines wait, but returns at once. Later
        calls of :meth:`translate` start new threads."""
        with self._lock:
            batcher, self._batcher = self._batcher, None
        if batcher is not None and self._process == os.getpid():
            batcher.close()

    def _queue(self) -> Batcher:
        if self._process != os.getpid():
            # The threads of the parent process are not here, and its locks may be held for ever.
            self._lock, self._batcher, self._process = threading.Lock(), None, os.getpid()
        with self._lock:
            if self._batcher is None:
                self._batcher = self._new_queue()
            return self._batcher

    def _new_queue(self) -> Batcher:
        translator = self._translator

        def decode(pieces: Sequence[PreparedLine], options: Dict[str, Any]) -> Sequence[Any]:
            return translator.translate(
                list(pieces), details=True, batch_size=BATCH, cancelled=batcher.given_up, **options
            )

        def join(line: str, results: List[Any], options: Dict[str, Any]) -> Any:
            return join_pieces(line, [[best, *best.alternatives] for best in results])

        batcher = Batcher(
            decode, prepare=translator.prepare, join=join, max_batch=BATCH, max_queue=QUEUE,
            wait=SECONDS,
        )  # fmt: skip
        return batcher


def _text(value: Any) -> str:
    # Calls with equal options share batches, whatever the types.
    return str(value).lower() if isinstance(value, bool) else str(value)
