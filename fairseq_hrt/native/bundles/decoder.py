"""The interface between a translator and a bundle's model on either engine."""

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
    """The callbacks of a call.

    Attributes:
        progress: called with (sentences done, sentences).
        cancelled: returns True to end the call; asked before each batch, by the native engine also
            within a batch.
    """

    progress: Optional[Callable[[int, int], None]] = None
    cancelled: Optional[Callable[[], bool]] = None

    def go_on(self) -> None:
        """Raises Cancelled if the call is to end."""
        if self.cancelled is not None and self.cancelled():
            raise Cancelled("the call was ended before it was done")


class Wanted(NamedTuple):
    """What a call needs besides its decoding options.

    Attributes:
        batch_size: sentences decoded together.
        scores, alignments, graphs: see :class:`~..options.values.DecodingOptions`.
        given: translations are given and only scored.
    """

    batch_size: int
    scores: bool = True
    alignments: bool = False
    graphs: bool = False
    given: bool = False


class Decoder(Protocol):
    """A bundle's model on one engine; options are texts, by the names of ``fairseq-generate``."""

    def identity(self) -> Dict[str, Any]:
        """What translations depend on besides bundle and options: ``{"engine": "native", …}``."""

    def describe(self) -> str:
        """The engine and its weights, in a few words; a model that is loaded later has none
        yet."""

    def prepare(self, options: Mapping[str, str], wanted: Wanted, given: FrozenSet[str]) -> Any:
        """Checks options and converts them for this engine; kept for later calls with the same
        options.

        Args:
            given: names of the options that must have an effect; others, such as the bundle's own,
                get their defaults if they have none.

        Raises:
            UnsupportedOption: only the other engine supports an option.
            ValueError: a bad option.
        """

    def longest(self, prepared: Any) -> Tuple[int, int]:
        """Most tokens of a source and of a translation, ``</s>`` included; never blocks."""

    def decode(
        self, prepared: Any, rows: List[List[int]], wanted: Wanted, watch: Watch
    ) -> List[List[Hypothesis]]:
        """Decodes sources that end in ``</s>``: at most ``nbest`` hypotheses each, best first."""

    def score(
        self, prepared: Any, sources: List[List[int]], targets: List[List[int]], wanted: Wanted
    ) -> List[Hypothesis]:
        """Scores given translations: tokens with their log-probabilities."""

    def graphs(
        self, prepared: Any, rows: List[List[int]], wanted: Wanted, watch: Watch
    ) -> List[Dict[str, Any]]:
        """The graph of each source as plain data, see :func:`~..decoding.describe_graph`."""
