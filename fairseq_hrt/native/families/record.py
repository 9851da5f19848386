"""The description of a family for code outside its own package."""

from dataclasses import dataclass, field, fields
from typing import Any, Dict, Mapping, Sequence, Tuple, Type

from .fields import ModelFields

# Name of a tensor → (kind, shape); kind is ``matrix`` (int8 or float32) or ``float32``.
Shapes = Dict[str, Tuple[str, Tuple[int, ...]]]


@dataclass(frozen=True)
class Family:
    """A family of models, or a way to decode them. Defaults are those of models that write word by
    word and have no options of their own; a family overrides what differs.

    In the methods ``header`` is a :class:`..runtime.header.Header` and ``options`` a
    :class:`..options.schema.Schema`.

    Attributes:
        name: of its package; its options begin with this name.
        task: its task, registered with fairseq.
        model: its registered model; empty if it decodes any Transformer of fairseq.
        losses: criterions that train the model; empty: any.
        tasks: further tasks whose checkpoints it decodes.
        decodes: the family whose models it decodes, if not its own.
        left_to_right: whether its models can write word by word, and so rerank, align and continue
            translations.
        scores_by_word: whether given translations are scored word by word; False: by a score of its
            own.
        several: whether it can find several translations of a sentence.
        several_by: for messages, the options that make it do so.
        graphs: whether its translations are paths of graphs.
        native: whether the native engine has its search.
        default: options that its task sets.
        first_words_by: for messages, what lets its translations begin with given words; empty: they
            always can, or never.
        computation: pattern of its model's options, without the family's name, that change the
            computation but not the names and shapes of parameters.
        header_fields: class of its models' header, with its own fields besides the common ones.
        exact: matrices that model files never store as int8.
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
        """The header fields that it adds to the common ones."""
        common = {item.name for item in fields(ModelFields)}
        return tuple(item.name for item in fields(self.header_fields) if item.name not in common)

    def check_header(self, header: Any) -> None:
        """Refuses values of its own header fields that no model has.

        Raises:
            ModelFileError: naming the field.
        """

    def tensors(self, header: Any) -> Shapes:
        """The tensors of its model files besides those of a plain Transformer."""
        return {}

    def spare_positions(self, header: Any) -> int:
        """How many positions its decoder computes after the longest target."""
        return 1

    def writes_in_order(self, header: Any) -> bool:
        """Whether the model can write one word after the other."""
        return True

    # ------------------------------------------------------------------ options

    def check_options(self, options: Any) -> None:
        """Refuses values of its options that are wrong for every model.

        Raises:
            ValueError: the message names the option.
        """

    def check_dictionaries(
        self, options: Any, source: Sequence[str], target: Sequence[str]
    ) -> None:
        """Refuses options that do not fit the words of the dictionaries.

        Raises:
            ValueError: they do not fit; the message names the fix.
        """

    def takes_first_words(self, header: Any, options: Any) -> bool:
        """Whether every translation can begin with given words: the model writes word by word from
        left to right."""
        return self.writes_in_order(header)

    def candidates(self, options: Any, model: Any, beam: int) -> int:
        """The most translations of a sentence that its search can find.

        Args:
            model: the header of a model, or PyTorch's decoder, which has the same attributes.
            beam: hypotheses that the search keeps.
        """
        return beam

    def collapses_repeats(self, options: Any) -> bool:
        """Whether immediately repeated n-grams are removed from finished translations."""
        return False

    def kernel_options(self, header: Any, options: Any) -> Dict[str, Any]:
        """Fields of the kernel's ``fh_options`` that differ from, or add to, the values of options.

        Raises:
            ValueError: options that contradict each other, or do not fit the model.
        """
        return {}
