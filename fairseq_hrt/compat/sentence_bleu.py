"""Repairs ``fairseq-score --sentence-bleu``.

fairseq 0.12.2 makes its scorer from three numbers, the ids of special symbols
(fairseq_cli/score.py:67), but since 0.10 the scorer takes one configuration (scoring/bleu.py:90).
"""

from typing import Any

from .importing import around


def _from_numbers(init: Any, self: Any, cfg: Any, *numbers: int) -> None:
    if numbers:
        from fairseq.scoring.bleu import BleuConfig

        eos, unk = numbers
        cfg = BleuConfig(pad=cfg, eos=eos, unk=unk)
    init(self, cfg)


REPAIR = around(
    "sentence-bleu",
    "fairseq-score --sentence-bleu calls the scorer as it was before fairseq 0.10",
    {"fairseq.scoring.bleu:Scorer.__init__": _from_numbers},
)
