"""Options of the family, with their help texts."""

from dataclasses import dataclass
from typing import List, Optional

from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.tasks.translation import TranslationConfig
from fairseq.tasks.translation_lev import NOISE_CHOICES, TranslationLevenshteinConfig
from omegaconf import II

from ..native.options.conditions import given, other_than
from ..native.options.option import option
from ..training import ConventionsConfig, DistillationConfig
from ..training.task_options import with_decoding_options


@dataclass
class HRTModelConfig(ConventionsConfig):
    """fairseq's Transformer options and those of hybrid-regressive models."""

    hrt_chunk_sizes: List[int] = option(
        [2],
        "chunk sizes that the model is trained for, e.g. 2,3,4; each has a start symbol of its own",
    )
    hrt_relative_window: int = option(
        16,
        "largest distance told apart by the relative positions of the decoder's"
        " self-attention; 0 switches relative positions off",
    )
    hrt_tail_target: ChoiceEnum(["eos", "pad"]) = option(
        "eos",
        "what is learnt at masked positions behind the first </s>: </s> again, or nothing"
        " (pad); with pad these positions do not count in the score of a translation either",
    )


@with_decoding_options("hrt")
@dataclass
class HRTTaskConfig(DistillationConfig, TranslationConfig):
    """Options of ``translation_hrt``, for the training curriculum and decoding."""

    hrt_curriculum_steps: Optional[int] = option(
        None,
        "updates until all sentences are trained with chunks; default: the --max-update that the"
        " training was begun with",
        least=1,
        when=other_than("hrt_curriculum_power", 0),
    )
    hrt_curriculum_power: float = option(
        1.0,
        "exponent of the curriculum: the share of sentences trained with chunks is "
        "(update / steps) to this power; 0 trains with chunks from the first update on",
        least=0,
    )
    hrt_truncate_target: bool = option(
        False,
        "cut targets (references of every subset) to --max-target-positions tokens instead"
        " of leaving the sentence out",
        decodes=True,
    )
    hrt_eval_autoregressive: bool = option(
        False,
        "with --eval-bleu: measure autoregressive decoding as well, as bleu_autoregressive",
        when=given("eval_bleu"),
    )
    max_update: int = II("optimization.max_update")
    seed: int = II("common.seed")


@dataclass
class MaskPredictModelConfig(FairseqDataclass):
    """``--hrt-relative-window``, which HRT's Appendix E adds to fairseq's Mask-Predict model."""

    hrt_relative_window: int = option(
        16, HRTModelConfig.__dataclass_fields__["hrt_relative_window"].metadata["help"]
    )


@dataclass
class MaskPredictTaskConfig(DistillationConfig, TranslationLevenshteinConfig):
    """Options of ``translation_mask_predict``: those of fairseq's ``translation_lev``, and those
    for training on a mixture of raw and distilled targets."""

    noise: NOISE_CHOICES = option("random_mask", "type of noise")
    seed: int = II("common.seed")
