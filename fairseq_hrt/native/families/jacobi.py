"""Parallel greedy decoding of autoregressive models: several words are guessed and checked per
pass."""

from typing import Any, Dict, Sequence

from ..options.schema import Schema
from .fields import ModelFields
from .record import Family

COPIES = "--jacobi-draft source copies words of the source: it needs one dictionary for both sides"


def require_greedy(options: Schema) -> None:
    """Raises ValueError for a beam above 1: parallel decoding reproduces greedy search only."""
    if options.beam > 1:
        raise ValueError(
            f"--beam {options.beam}: parallel decoding is exact for greedy search only; give --beam"
            " 1, or decode with --task translation_autoregressive"
        )


class Jacobi(Family):
    """Parallel decoding of autoregressive models, which ``--jacobi-mode`` switches on: overrides
    the defaults of :class:`.record.Family` where it differs."""

    def check_dictionaries(
        self, options: Schema, source: Sequence[str], target: Sequence[str]
    ) -> None:
        if options.jacobi_draft == "source" and source != target:
            raise ValueError(
                f"{COPIES} (fairseq-preprocess --joined-dictionary); give another --jacobi-draft"
            )

    def candidates(self, options: Schema, model: Any, beam: int) -> int:
        return beam if options.jacobi_mode is None else 1

    def kernel_options(self, header: ModelFields, options: Schema) -> Dict[str, Any]:
        if options.jacobi_mode is not None:
            require_greedy(options)
            words = header.source_vocabulary, header.target_vocabulary
            if options.jacobi_draft == "source" and words[0] != words[1]:
                raise ValueError(
                    f"{COPIES}; this model has {words[0]} source and {words[1]} target words: give"
                    " another --jacobi-draft"
                )
        return {}


FAMILY = Jacobi(
    "jacobi",
    "translation_jacobi",
    tasks=("translation",),
    decodes="autoregressive",
    left_to_right=True,
    scores_by_word=True,
    # With fairseq's own default beam of 5, every command without --beam would be refused.
    default={"jacobi_mode": "frontier", "beam": "1"},
)
