"""What is known of a family outside of its own package."""

from dataclasses import dataclass, field, fields
from typing import Any, Dict, Mapping, Sequence, Tuple, Type

from .fields import ModelFields

# Name of a tensor → (kind, shape); kind is ``matrix`` (int8 or float32) or ``float32``.
Shapes = Dict[str, Tuple[str, Tuple[int, ...]]]


@dataclass(frozen=True)
class Family:
    """A way to write translations. Attributes and methods hold for a model that writes word by word
    and has no options of its own; a family overrides where its models differ.

    In the methods ``header`` is a :class:`..runtime.header.Header` and ``options`` a
    :class:`..options.schema.Schema`.

    Attributes:
        name: of its package; its options begin with it.
        task: registered with fairseq.
        model: its registered model; empty where any Transformer of fairseq is decoded.
        losses: criterions that the model is trained with; empty: any.
        tasks: further tasks whose checkpoints it decodes.
        decodes: the family whose models it decodes, if that is not itself.
        left_to_right: whether its models can write word by word, and so rank, align and continue
            translations.
        scores_by_word: whether a given translation is scored word by word, as every model that
            writes so can do; otherwise the score is the family's own.
        several: whether it finds several translations of a sentence.
        several_by: options that make it do so, for messages.
        graphs: whether its translations are paths of graphs.
        native: whether the native engine has its search.
        default: options that its task sets.
        first_words_by: what lets its translations begin with given words, for messages; empty: they
            always can, or never.
        computation: pattern of its model's options, without the family's name, that decide what is
            done with parameters of the same names and shapes.
        header_fields: what the header of its models has: its own fields beside those of all models.
        exact: matrices of its model files that are never rounded.
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
        """Fields of a header that no other family has."""
        common = {item.name for item in fields(ModelFields)}
        return tuple(item.name for item in fields(self.header_fields) if item.name not in common)

    def check_header(self, header: Any) -> None:
        """Refuses values of its own fields that no model has.

        Raises:
            ModelFileError: naming the field.
        """

    def tensors(self, header: Any) -> Shapes:
        """Tensors of its model files beside those of a plain Transformer."""
        return {}

    def spare_positions(self, header: Any) -> int:
        """Positions behind the longest target that its decoder computes."""
        return 1

    def writes_in_order(self, header: Any) -> bool:
        """Whether the model can write one word after the other."""
        return True

    # ------------------------------------------------------------------ options

    def check_options(self, options: Any) -> None:
        """Refuses values of its options, whatever the model.

        Raises:
            ValueError: by name.
        """

    def check_dictionaries(
        self, options: Any, source: Sequence[str], target: Sequence[str]
    ) -> None:
        """Refuses options that do not fit the words of the dictionaries.

        Raises:
            ValueError: what to do.
        """

    def takes_first_words(self, header: Any, options: Any) -> bool:
        """Whether every translation can begin with given words: what is written comes word by word
        from left to right."""
        return self.writes_in_order(header)

    def candidates(self, options: Any, model: Any, beam: int) -> int:
        """Most translations of a sentence that its search finds.

        Args:
            model: the header of a model or the decoder of PyTorch's, with the same attributes.
            beam: hypotheses that are kept.
        """
        return beam

    def collapses_repeats(self, options: Any) -> bool:
        """Whether immediately repeated n-grams of finished translations are left out."""
        return False

    def kernel_options(self, header: Any, options: Any) -> Dict[str, Any]:
        """Fields of the kernel's ``fh_options`` that are not the values of options.

        Raises:
            ValueError: options that do not go together, or do not fit the model.
        """
        return {}
