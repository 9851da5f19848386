"""Every family once: its names, and what its models can do. Nothing else lists families. Standard
library only."""

from dataclasses import dataclass, field
from typing import Dict, Mapping, Optional, Tuple


@dataclass(frozen=True)
class Family:
    """A way to write translations.

    Attributes:
        name: of its package; its options begin with it.
        task: registered with fairseq.
        model: its registered model; empty where any Transformer of fairseq is decoded.
        losses: criterions that the model is trained with; empty: any.
        tasks: further tasks whose checkpoints it decodes.
        decodes: the family whose models it decodes, if that is not itself.
        left_to_right: whether its models can write word by word, and so rank, align and continue
            translations.
        several: whether it finds several translations of a sentence.
        graphs: whether its translations are paths of graphs.
        native: whether the native engine has its search.
        default: options that its task sets.
    """

    name: str
    task: str
    model: str = ""
    losses: Tuple[str, ...] = ()
    tasks: Tuple[str, ...] = ()
    decodes: str = ""
    left_to_right: bool = False
    several: bool = False
    graphs: bool = False
    native: bool = True
    default: Mapping[str, str] = field(default_factory=dict)


# The order of those with models of their own is that of fh_family in the kernel's runtime.h.
FAMILIES: Tuple[Family, ...] = (
    Family(
        "autoregressive",
        "translation_autoregressive",
        tasks=("translation",),
        left_to_right=True,
        several=True,
    ),
    Family(
        "hrt",
        "translation_hrt",
        "hrt_transformer",
        ("hrt_loss",),
        left_to_right=True,
        several=True,
    ),
    Family(
        "bidirectional",
        "translation_bidirectional",
        "bidirectional_transformer",
        ("bidirectional_loss",),
        several=True,
    ),
    Family(
        "dag",
        "translation_dag",
        "dag_transformer",
        ("dag_nll_loss", "dag_fuzzy_loss"),
        several=True,
        graphs=True,
    ),
    Family(
        "jacobi",
        "translation_jacobi",
        tasks=("translation",),
        decodes="autoregressive",
        left_to_right=True,
        default={"jacobi_mode": "frontier"},
    ),
)
NAMES: Tuple[str, ...] = tuple(family.name for family in FAMILIES)
# Families with models of their own: what a model file of the native engine may hold.
MODEL_FAMILIES: Tuple[str, ...] = tuple(family.name for family in FAMILIES if not family.decodes)
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
    """The family that decodes the checkpoints of a task; None for tasks of others."""
    return _BY_TASK.get(task)


def tasks_for(models: str) -> Tuple[str, ...]:
    """The tasks that decode the models of a family, its own first."""
    found = [family for family in FAMILIES if models in (family.name, family.decodes)]
    own = [family.task for family in found]
    return tuple(
        dict.fromkeys([own[0], *(task for family in found for task in family.tasks), *own[1:]])
    )
