"""Models that write a word or a blank at each position in one pass (CTC)."""

from dataclasses import dataclass
from typing import Any, Dict

from ..options.schema import Schema
from .fields import ModelFields, later
from .record import Family

# Inputs of the decoder's positions, in the order of fh_position_inputs in the kernel's runtime.h.
INPUTS = ("unk", "copy", "soft-copy")


@dataclass(frozen=True, kw_only=True)
class CtcFields(ModelFields):
    """Header fields that describe the decoder's positions, see ``ctc/decoder.py``.

    Attributes:
        upsample: λ, positions per source token.
        position_inputs: what each position reads: ``unk`` (the embedding of ``<unk>``), ``copy``
            (that of its source token) or ``soft-copy`` (a mixture of the source's embeddings).
        copy_temperature: temperature of the softmax that weights this mixture; 0 for other inputs.
    """

    upsample: float = later(0.0)
    position_inputs: str = later("unk")
    copy_temperature: float = later(0.0)


def require_search(options: Schema) -> None:
    """Raises ValueError if ``--min-len`` is above 1 in greedy search (``--beam 1``), which finds
    one translation of any length and cannot choose a longer one."""
    if options.min_len > 1 and options.beam == 1:
        raise ValueError(
            f"--min-len {options.min_len} needs a search that compares lengths: give --beam 2 or"
            " more, or leave --min-len out"
        )


class Ctc(Family):
    """Models that write all positions at once: overrides the defaults of :class:`.record.Family`
    where such models differ."""

    def check_header(self, header: CtcFields) -> None:
        header.demand(0 < header.upsample <= 1e6, "upsample")
        header.demand(header.position_inputs in INPUTS, "position_inputs")
        copies, soft = header.position_inputs != "unk", header.position_inputs == "soft-copy"
        header.demand(
            not copies or header.source_vocabulary == header.target_vocabulary,
            "position_inputs", "source_vocabulary", "target_vocabulary",
        )  # fmt: skip
        fits = 0 < header.copy_temperature <= 1e6 if soft else header.copy_temperature == 0
        header.demand(fits, "position_inputs", "copy_temperature")

    def writes_in_order(self, header: Any) -> bool:
        return False

    def kernel_options(self, header: CtcFields, options: Schema) -> Dict[str, Any]:
        require_search(options)
        return {}


FAMILY = Ctc(
    "ctc",
    "translation_ctc",
    "ctc_transformer",
    ("ctc_nll_loss", "ctc_ngram_loss"),
    several=True,
    computation="upsample_scale|inputs",
    header_fields=CtcFields,
)
