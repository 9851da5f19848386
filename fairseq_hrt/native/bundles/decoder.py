"""What a translator asks of a bundle's model on an engine."""

from typing import (
    Any,
    Callable,
    Dict,
    FrozenSet,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Protocol,
    Tuple,
)  # fmt: skip

from ..decoding import Hypothesis
from ..runtime.engine import Cancelled


class Watch(NamedTuple):
    """Who watches a call.

    Attributes:
        progress: called with (sentences done, sentences).
        cancelled: whether nobody wants the results any more; asked before each batch, and within
            batches by the native engine.
    """

    progress: Optional[Callable[[int, int], None]] = None
    cancelled: Optional[Callable[[], bool]] = None

    def go_on(self) -> None:
        """Raises Cancelled where nobody waits any more."""
        if self.cancelled is not None and self.cancelled():
            raise Cancelled("the call was ended before it was done")


class Wanted(NamedTuple):
    """What a call wants besides translations.

    Attributes:
        batch_size: sentences decoded together.
        scores, alignments, graphs: see :class:`~..options.values.DecodingOptions`.
        given: translations are given, and only rated.
    """

    batch_size: int
    scores: bool = True
    alignments: bool = False
    graphs: bool = False
    given: bool = False


class Decoder(Protocol):
    """A bundle's model on one engine; options are texts, by the names of ``fairseq-generate``."""

    def identity(self) -> Dict[str, Any]:
        """What translations depend on besides bundle and options."""

    def prepare(self, options: Mapping[str, str], wanted: Wanted, given: FrozenSet[str]) -> Any:
        """Options as this engine takes them, checked; kept for the next call with the same.

        Args:
            given: names of the options that must have an effect; others, a bundle's own, are set
                aside where they have none.

        Raises:
            UnsupportedOption: the other engine has to do it.
            ValueError: a bad option.
        """

    def longest(self, prepared: Any) -> Tuple[int, int]:
        """Most tokens of a source and of a translation, ``</s>`` included; waits for nobody."""

    def decode(
        self, prepared: Any, rows: List[List[int]], wanted: Wanted, watch: Watch
    ) -> List[List[Hypothesis]]:
        """Hypotheses of sources that end in ``</s>``, best first, at most ``nbest``."""

    def score(
        self, prepared: Any, sources: List[List[int]], targets: List[List[int]], wanted: Wanted
    ) -> List[Hypothesis]:
        """Given translations with their log-probabilities."""

    def graphs(
        self, prepared: Any, rows: List[List[int]], wanted: Wanted, watch: Watch
    ) -> List[Dict[str, Any]]:
        """The graph of each source as plain data, see :func:`~..decoding.describe_graph`."""
