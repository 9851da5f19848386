"""``fairseq-score --sentence-bleu``.

fairseq 0.12.2 gives its scorer three numbers (fairseq_cli/score.py:67), which since 0.10 takes them
as one configuration (scoring/bleu.py:90).
"""

import functools
from typing import Any

from .importing import Repair


def _repair_scorer(module: Any) -> None:
    scorer = module.Scorer
    init = scorer.__init__

    @functools.wraps(init)
    def from_numbers(self: Any, cfg: Any, *numbers: int) -> None:
        if numbers:
            eos, unk = numbers
            cfg = module.BleuConfig(pad=cfg, eos=eos, unk=unk)
        init(self, cfg)

    scorer.__init__ = from_numbers


REPAIR = Repair(
    name="sentence-bleu",
    modules=("fairseq.scoring.bleu",),
    reason="fairseq-score --sentence-bleu calls the scorer as it was before fairseq 0.10",
    apply=_repair_scorer,
)
