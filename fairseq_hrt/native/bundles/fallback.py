"""A decoder that takes over where another does not support the options of a call."""

import logging
import threading
from typing import Any, Callable, Dict, FrozenSet, List, Mapping, Optional, Tuple

from ..decoding import Hypothesis
from ..io.escaping import printable
from ..io.forks import renew_in_forks
from ..options.values import UnsupportedOption
from .decoder import Decoder, Wanted, Watch

logger = logging.getLogger(__name__)
# The decoder that supports the options, and the result of its ``prepare``.
Prepared = Tuple[Decoder, Any]


class FallbackDecoder:
    """A :class:`.decoder.Decoder` that decodes with its first decoder, or with PyTorch's if the
    first does not support the options. Safe to use from several threads.

    Args:
        first: the first decoder.
        make: makes the decoder that takes over; called once, when it is needed.
    """

    def __init__(self, first: Decoder, make: Callable[[], Decoder]) -> None:
        self._first, self._make, self._last = first, make, first
        self._other: Optional[Decoder] = None
        self._unlock()
        renew_in_forks(self, FallbackDecoder._unlock)

    def _unlock(self) -> None:
        self._lock = threading.Lock()

    def identity(self) -> Dict[str, Any]:
        """The facts on which the first decoder's translations depend, see
        :meth:`.decoder.Decoder.identity`."""
        return self._first.identity()

    def describe(self) -> str:
        """The decoder that was prepared last, in a few words."""
        return self._last.describe()

    def prepare(
        self, options: Mapping[str, str], wanted: Wanted, given: FrozenSet[str]
    ) -> Prepared:
        """Prepares the decoder that supports the options, see :meth:`.decoder.Decoder.prepare`.
        Logs a warning when PyTorch takes over for the first time."""
        try:
            prepared: Prepared = self._first, self._first.prepare(options, wanted, given)
        except UnsupportedOption as error:
            with self._lock:
                if self._other is None:
                    logger.warning("%s (PyTorch takes over)", printable(str(error)))
                    self._other = self._make()
            prepared = self._other, self._other.prepare(options, wanted, given)
        self._last = prepared[0]
        return prepared

    def longest(self, prepared: Prepared) -> Tuple[int, int]:
        """The most tokens of (a source, a translation) for the decoder in ``prepared``."""
        return prepared[0].longest(prepared[1])

    def decode(
        self, prepared: Prepared, rows: List[List[int]], wanted: Wanted, watch: Watch
    ) -> List[List[Hypothesis]]:
        """Translates with the decoder in ``prepared``, see :meth:`.decoder.Decoder.decode`."""
        return prepared[0].decode(prepared[1], rows, wanted, watch)

    def score(
        self,
        prepared: Prepared,
        sources: List[List[int]],
        targets: List[List[int]],
        wanted: Wanted,
    ) -> List[Hypothesis]:
        """Scores with the decoder in ``prepared``, see :meth:`.decoder.Decoder.score`."""
        return prepared[0].score(prepared[1], sources, targets, wanted)

    def graphs(
        self, prepared: Prepared, rows: List[List[int]], wanted: Wanted, watch: Watch
    ) -> List[Dict[str, Any]]:
        """The graphs by the decoder in ``prepared``, see :meth:`.decoder.Decoder.graphs`."""
        return prepared[0].graphs(prepared[1], rows, wanted, watch)
