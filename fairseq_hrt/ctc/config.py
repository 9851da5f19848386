"""Options of the family, with their help texts."""

from dataclasses import dataclass

from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.models.transformer import TransformerConfig
from fairseq.tasks.translation import TranslationConfig
from omegaconf import II

from ..native.families.ctc import INPUTS
from ..native.options.option import option
from ..training import DistillationConfig
from ..training.task_options import with_decoding_options


@dataclass
class CtcModelConfig(TransformerConfig):
    """fairseq's Transformer options, and the number and inputs of the decoder's positions."""

    ctc_upsample_scale: float = option(
        3.0, "lambda, positions of the decoder for each source token, </s> included"
    )
    ctc_inputs: ChoiceEnum(list(INPUTS)) = option(
        "copy",
        "what the decoder's positions read: copy = each source token lambda times, in order;"
        " soft-copy = a mixture of the source tokens around, whose width is learned; both need one"
        " dictionary for both languages; unk = <unk>",
    )


@with_decoding_options("ctc")
@dataclass
class CtcTaskConfig(DistillationConfig, TranslationConfig):
    """Options of ``translation_ctc``, for training pairs and decoding."""

    seed: int = II("common.seed")


@dataclass
class CtcNllLossConfig(FairseqDataclass):
    """Options of ``ctc_nll_loss``, the target's negative log-likelihood over all outputs."""

    ctc_glance_schedule: str = option(
        "0.5:0.3@100k",
        "share of wrongly predicted positions that read what the best alignment of the target puts"
        " there: VALUE@UPDATE joined by colons, linear between them, k = thousand; 0 switches"
        " glancing off",
    )
    sentence_avg: bool = II("optimization.sentence_avg")


@dataclass
class CtcNgramLossConfig(CtcNllLossConfig):
    """Options of ``ctc_ngram_loss``, which rewards expected n-gram matches."""

    ctc_glance_schedule: str = option(
        "0.1", "see ctc_nll_loss; a small share, since this loss is for fine-tuning"
    )
    ctc_ngram_order: int = option(
        2, "n of the n-grams that are matched; one order, not a sum over orders"
    )
