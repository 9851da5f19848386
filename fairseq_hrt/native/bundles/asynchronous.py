"""Translation in asyncio: calls that are made at the same time are decoded together."""

import sys
import threading
import weakref
from typing import Any, Dict, List, Optional, Sequence, Union

from ..io.forks import renew_in_forks
from ..options.conditions import option_text
from ..text.glossary import Glossary
from .batching import Batcher, QueueFull
from .translation import PreparedLine, join_pieces, joined_texts, require_raw

__all__ = ["AsyncTranslation", "QueueFull"]

# Most lines of a batch; most lines that wait; seconds that a batch's first line waits for others.
BATCH, QUEUE, SECONDS = 32, 4096, 0.003
# Arguments of Translator.translate that belong to a batch, which other calls share.
_OF_BATCHES = ("batch_size", "progress", "cancelled", "given")


class AsyncTranslation:
    """Translates lines for asyncio: all calls put their lines into one queue, and a thread decodes
    the lines that wait there, of whatever call, in one batch. A forked process gets a queue of its
    own. The threads end with the object.

    Args:
        translator: the :class:`.translator.Translator` that decodes the batches; it must hold this
            object, which does not keep it alive.
    """

    def __init__(self, translator: Any) -> None:
        # Weak, else the threads of the queue would keep the model in memory for ever.
        self._translator = weakref.proxy(translator)
        self._start_anew()
        renew_in_forks(self, AsyncTranslation._start_anew)

    def _start_anew(self) -> None:
        self._lock = threading.Lock()
        self._batcher: Optional[Batcher] = None

    async def translate(
        self,
        lines: Union[str, Sequence[str]],
        *,
        details: bool = False,
        glossary: Optional[Glossary] = None,
        **decoding: Any,
    ) -> Any:
        """Puts lines into the queue, waits for their translations and returns them: texts, or with
        ``details`` :class:`.translation.Translation` objects; only one for a single string. For
        arguments and errors see :meth:`.translator.Translator.translate_async`."""
        for name in _OF_BATCHES:
            if name in decoding:
                raise TypeError(
                    f"translate_async takes no {name}, since calls share their batches: leave it"
                    " out, or use translate"
                )
        rows = [lines] if isinstance(lines, str) else list(lines)
        require_raw(rows, "translate_async")
        # Calls with equal options share batches, whatever the types.
        options: Dict[str, Any] = {name: option_text(value) for name, value in decoding.items()}
        # Calls with details are not decoded with others: scores take time, and without them the
        # engine may leave out words that cannot be the best.
        options["details"] = bool(details)
        if glossary is not None:
            options["glossary"] = glossary
        results = await self._queue().submit(rows, **options) if rows else []
        return results[0] if isinstance(lines, str) else results

    def __del__(self) -> None:
        # When the interpreter ends, the batcher's threads stand still and may hold its lock.
        if self._batcher is not None and not sys.is_finalizing():
            self._batcher.close()

    def _queue(self) -> Batcher:
        with self._lock:
            if self._batcher is None:
                self._batcher = self._new_queue()
            return self._batcher

    def _new_queue(self) -> Batcher:
        translator = self._translator

        def decode(pieces: Sequence[PreparedLine], options: Dict[str, Any]) -> Sequence[Any]:
            return translator.translate(
                list(pieces), batch_size=BATCH, cancelled=batcher.given_up, **options
            )

        def join(line: str, results: List[Any], options: Dict[str, Any]) -> Any:
            if not options["details"]:
                return joined_texts(results)
            return join_pieces(line, results)

        batcher = Batcher(
            decode, prepare=lambda line: translator.prepare(line), join=join, max_batch=BATCH,
            max_queue=QUEUE, wait=SECONDS,
        )  # fmt: skip
        return batcher
