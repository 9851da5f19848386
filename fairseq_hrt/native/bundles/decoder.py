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

# Decoding options that take effect when models are loaded, and in no later call.
OF_LOADING = (
    "fp16", "bf16", "memory_efficient_fp16", "memory_efficient_bf16", "model_overrides",
    "retain_dropout", "retain_dropout_modules",
)  # fmt: skip


class Watch(NamedTuple):
    """The callbacks of a call that decodes.

    Attributes:
        progress: called after each batch with (number of sentences done, number of all sentences);
            None: not called.
        cancelled: returns True to end the call; called before each batch, by the native engine also
            within a batch. None: the call is never ended.
    """

    progress: Optional[Callable[[int, int], None]] = None
    cancelled: Optional[Callable[[], bool]] = None

    def go_on(self) -> None:
        """Raises Cancelled if :attr:`cancelled` returns True."""
        if self.cancelled is not None and self.cancelled():
            raise Cancelled("the call was ended before it was done")


class Wanted(NamedTuple):
    """The batch size of a call and the results that it needs, besides its decoding options.

    Attributes:
        batch_size: sentences decoded together.
        scores, alignments, graphs: whether hypotheses need scores, the source token of each of
            their tokens, and the graphs in which they are paths.
        given: whether translations are given, which are only to be scored.
    """

    batch_size: int
    scores: bool = True
    alignments: bool = False
    graphs: bool = False
    given: bool = False


class Decoder(Protocol):
    """A bundle's model on one engine. Options are texts, by the names of ``fairseq-generate``;
    ``prepared`` is the result of :meth:`prepare`."""

    def identity(self) -> Dict[str, Any]:
        """The facts on which translations depend besides bundle and options: ``{"engine":
        "native", …}``. A resumed run compares them with those of the run that it continues."""

    def describe(self) -> str:
        """The engine and the type of its weights, in a few words for the user; only the engine as
        long as the model is not loaded."""

    def prepare(self, options: Mapping[str, str], wanted: Wanted, given: FrozenSet[str]) -> Any:
        """Checks options and converts them for this engine; the result is kept for later calls with
        the same options.

        Args:
            options: {name: text}.
            wanted: the batch size and the results of the calls to come.
            given: names of the options that are refused if they have no effect; other options
                without effect, such as the bundle's own, get their defaults.

        Raises:
            UnsupportedOption: only the other engine supports an option.
            ValueError: an option is unknown, or its value is invalid.
        """

    def longest(self, prepared: Any) -> Tuple[int, int]:
        """The most tokens that (a source, a translation) may have, ``</s>`` included. Returns at
        once, without waiting for another thread."""

    def decode(
        self, prepared: Any, rows: List[List[int]], wanted: Wanted, watch: Watch
    ) -> List[List[Hypothesis]]:
        """Translates sources, lists of ids that end in ``</s>``. Returns at most ``nbest``
        hypotheses for each source, best first."""

    def score(
        self, prepared: Any, sources: List[List[int]], targets: List[List[int]], wanted: Wanted
    ) -> List[Hypothesis]:
        """Scores ``targets[i]`` as the translation of ``sources[i]``, both lists of ids that end in
        ``</s>``. Returns for each target a hypothesis with its tokens and their
        log-probabilities."""

    def graphs(
        self, prepared: Any, rows: List[List[int]], wanted: Wanted, watch: Watch
    ) -> List[Dict[str, Any]]:
        """The graph of words that the model writes for each source, as a dictionary; see
        :func:`~..decoding.describe_graph`."""
