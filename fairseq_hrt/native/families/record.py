"""The description of a family of models for code outside the family's own package."""

from dataclasses import dataclass, field, fields
from typing import Any, Container, Dict, Mapping, Optional, Sequence, Tuple, Type

from .fields import ModelFields

# Name of a tensor → (kind, shape); kind is ``matrix`` (int8 or float32) or ``float32``.
Shapes = Dict[str, Tuple[str, Tuple[int, ...]]]


@dataclass(frozen=True)
class Family:
    """A family of models, or a way to decode the models of another family. Defaults are those of
    models that write word by word and have no options of their own; a family overrides what
    differs.

    In the methods ``header`` is a :class:`..runtime.header.Header` and ``options`` a
    :class:`..options.schema.Schema`.

    Attributes:
        name: the name of its package; its options begin with this name.
        task: its task, registered with fairseq.
        model: the name under which its model is registered with fairseq; empty if it has no model
            of its own and decodes any Transformer of fairseq.
        losses: criterions that train the model; empty: any.
        tasks: further tasks whose checkpoints it decodes.
        decodes: name of the family whose models it decodes; empty: those of its own family.
        left_to_right: whether its models can write word by word, and so rerank, align and continue
            translations.
        scores_by_word: whether given translations are scored word by word; False: by a score that
            the family defines.
        several: whether it can find several translations of a sentence.
        several_by: for messages, the options with which it finds several translations.
        graphs: whether its translations are paths of graphs.
        native: whether the native engine implements its search.
        default: decoding options that its task sets, {name: text}.
        first_words_by: for messages, the option or property of the model that lets its translations
            begin with given words; empty if no choice matters: with ``left_to_right`` they always
            can, without it never.
        computation: regular expression for the options of its model, without the family's name,
            that change the computation but not the names and shapes of parameters.
        header_fields: class of its models' header, with its own fields besides the common ones.
        exact: names of matrices that model files always store as float32, never as int8.
    """

    name: str
    task: str
    model: str = ""
    losses: Tuple[str, ...] = ()
    tasks: Tuple[str, ...] = ()
    decodes: str = ""
    left_to_right: bool = False
    scores_by_word: bool = False
    several: bool = False
    several_by: str = "--beam 2 or more"
    graphs: bool = False
    native: bool = True
    default: Mapping[str, str] = field(default_factory=dict)
    first_words_by: str = ""
    computation: str = r"\w+"
    header_fields: Type[ModelFields] = ModelFields
    exact: Tuple[str, ...] = ()

    # ------------------------------------------------------------------ models

    @property
    def own_fields(self) -> Tuple[str, ...]:
        """The names of the header fields that the family adds to the common ones."""
        common = {item.name for item in fields(ModelFields)}
        return tuple(item.name for item in fields(self.header_fields) if item.name not in common)

    def check_header(self, header: Any) -> None:
        """Checks the family's own header fields.

        Raises:
            ModelFileError: a field has a value that no model has; the message names the field.
        """

    def tensors(self, header: Any) -> Shapes:
        """The tensors of the family's model files besides those of a plain Transformer: {name:
        (kind, shape)}, where kind is ``matrix`` (int8 or float32) or ``float32``."""
        return {}

    def spare_positions(self, header: Any) -> int:
        """How many position vectors the decoder needs beyond those of the ``longest_target``
        tokens."""
        return 1

    def writes_in_order(self, header: Any) -> bool:
        """Whether the model can write one word after the other, from left to right. Models of the
        family hrt can, but do so only with ``--hrt-decode-chunk 1``."""
        return True

    # ------------------------------------------------------------------ options

    def check_options(self, options: Any) -> None:
        """Checks the values of the family's options by the rules that hold for every model.

        Raises:
            ValueError: a value is invalid; the message names the option.
        """

    def check_dictionaries(
        self, options: Any, source: Sequence[str], target: Sequence[str]
    ) -> None:
        """Checks that the family's options fit the dictionaries, given as lists of words.

        Raises:
            ValueError: an option does not fit the dictionaries; the message names the fix.
        """

    def takes_first_words(self, header: Any, options: Any) -> bool:
        """Whether translations can begin with given words, because the model writes from left to
        right with these options."""
        return self.writes_in_order(header)

    def candidates(self, options: Any, model: Any, beam: int) -> int:
        """The most translations of a sentence that the family's search can find.

        Args:
            options: the decoding options.
            model: the header of a model, or PyTorch's decoder, which has the same attributes.
            beam: the number of hypotheses that the search keeps.
        """
        return beam

    def collapses_repeats(self, options: Any) -> bool:
        """Whether immediately repeated n-grams are removed from finished translations."""
        return False

    def check_positions(
        self, options: Any, positions: int, given: Optional[Container[str]]
    ) -> None:
        """Raises ValueError for an option that the user gives now (``given``: its name is among
        these; None: all are) and that has no effect on a decoder with this number of
        ``positions``."""

    def kernel_options(self, header: Any, options: Any) -> Dict[str, Any]:
        """The fields of ``fh_options``, a C structure of the native engine, whose values are
        computed from options and header instead of copied from an option: {field: value}.
        ``table``, if there is one, is a list of pairs like the result of :func:`.hrt.chunk_table`.

        Raises:
            ValueError: options contradict each other, or do not fit the model.
        """
        return {}
