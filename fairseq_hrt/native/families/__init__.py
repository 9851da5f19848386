"""The families of models. Each has a module here with a :class:`.record.Family`, which describes it
to code outside the family's own package: such code reads this description instead of comparing
names. Standard library only.

To add a family, write its module and add it to FAMILIES. If it has header fields of its own, add
their class to the bases of FamilyFields.
"""

from dataclasses import dataclass
from typing import Any, Dict, Optional, Sequence, Tuple

from ..options.schema import Schema
from . import autoregressive, bidirectional, ctc, dag, hrt, jacobi
from .fields import ModelFields as ModelFields
from .record import Family as Family

# Families with models of their own are in the order of fh_family in the kernel's runtime.h.
FAMILIES: Tuple[Family, ...] = (
    autoregressive.FAMILY,
    hrt.FAMILY,
    bidirectional.FAMILY,
    dag.FAMILY,
    jacobi.FAMILY,
    ctc.FAMILY,
)


@dataclass(frozen=True, kw_only=True)
class FamilyFields(
    autoregressive.AutoregressiveFields,
    hrt.HrtFields,
    bidirectional.BidirectionalFields,
    dag.DagFields,
    ctc.CtcFields,
):
    """The fields of a model file's header: those of every family, and those that single families
    add, with their defaults in models of other families."""


BY_NAME: Dict[str, Family] = {family.name: family for family in FAMILIES}
NAMES: Tuple[str, ...] = tuple(BY_NAME)
# Families whose models the native engine's model file can hold.
MODEL_FAMILIES: Tuple[str, ...] = tuple(
    family.name for family in FAMILIES if family.native and not family.decodes
)
# For messages: models that write graphs; what lets translations begin with given words.
GRAPH_MODELS: str = " or ".join(family.model for family in FAMILIES if family.graphs)
FIRST_WORDS_BY: str = ", ".join(
    f"{family.name} with {family.first_words_by}" for family in FAMILIES if family.first_words_by
)
# Tasks of models that can write word by word.
LEFT_TO_RIGHT: Tuple[str, ...] = tuple(
    dict.fromkeys(
        task for family in FAMILIES if family.left_to_right for task in (*family.tasks, family.task)
    )
)
_BY_TASK: Dict[str, Family] = {
    **{task: family for family in reversed(FAMILIES) for task in family.tasks},
    **{family.task: family for family in FAMILIES},
}


def family_of_task(task: str) -> Optional[Family]:
    """The family that decodes checkpoints of a task; None if there is none."""
    return _BY_TASK.get(task)


def decoders(models: str) -> Tuple[Family, ...]:
    """The families that can decode models of the family with the name ``models``, that family
    first: for ``autoregressive`` these are autoregressive and jacobi."""
    return tuple(family for family in FAMILIES if models in (family.name, family.decodes))


def tasks_for(models: str) -> Tuple[str, ...]:
    """The names of the tasks that can decode models of the family with the name ``models``, that
    family's own task first."""
    found = decoders(models)
    own = [family.task for family in found]
    return tuple(
        dict.fromkeys([own[0], *(task for family in found for task in family.tasks), *own[1:]])
    )


def candidates(family: str, options: Schema, model: Any, *, words: int) -> int:
    """The most translations of a sentence that a search with these options can find.

    Args:
        family: name of the model's family.
        options: the decoding options.
        model: the model's header, or PyTorch's decoder, which has the same attributes.
        words: size of the target dictionary; no search keeps more hypotheses than there are words
            besides padding.
    """
    beam = min(options.beam, words - 1)
    return min(own.candidates(options, model, beam) for own in decoders(family))


def check_dictionaries(options: Schema, source: Sequence[str], target: Sequence[str]) -> None:
    """Checks that the options of all families fit the dictionaries, given as lists of words.

    Raises:
        ValueError: an option does not fit them, e.g. needs one dictionary for both languages; the
            message names the fix.
    """
    for family in FAMILIES:
        family.check_dictionaries(options, source, target)
