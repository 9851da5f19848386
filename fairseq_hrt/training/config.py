"""Options that several families share; each help text is written here, once.

fairseq's config dialect: no ``from __future__ import annotations``, ``Optional[int]`` and ``List[int]`` as they are,
``ChoiceEnum`` for choices, booleans default to False, no percent sign in a help text.
"""

from dataclasses import dataclass, field
from typing import Optional

from fairseq.dataclass import FairseqDataclass


@dataclass
class DistillationConfig(FairseqDataclass):
    """Mixed distillation: raw and distilled targets of the same sources."""

    distilled_data: Optional[str] = field(
        default=None,
        metadata={
            "help": "folder with the same binarised sources and the targets that a teacher translated; one folder for "
            "each folder of the data, separated by colons. Without it the training uses the data as they are"
        },
    )
    raw_probability: float = field(
        default=0.0,
        metadata={
            "help": "probability that a sentence is trained on its raw target instead of the distilled one, drawn anew "
            "for each update; only with --distilled-data"
        },
    )
