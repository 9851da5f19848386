"""Models that write a word or a blank at each position in one pass (CTC)."""

from typing import Any

from .record import Family


class Ctc(Family):
    """What differs in models that write all positions at once."""

    def writes_in_order(self, header: Any) -> bool:
        return False


FAMILY = Ctc(
    "ctc",
    "translation_ctc",
    "ctc_transformer",
    ("ctc_nll_loss", "ctc_ngram_loss"),
    several=True,
    native=False,
    computation="upsample_scale|inputs",
)
