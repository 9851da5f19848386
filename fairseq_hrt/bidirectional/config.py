"""Options of the family, with their help texts."""

from dataclasses import dataclass
from typing import Optional

from fairseq.tasks.translation import TranslationConfig
from omegaconf import II

from ..training import ConventionsConfig, DistillationConfig, option
from ..training.task_options import with_decoding_options


@dataclass
class BidirectionalModelConfig(ConventionsConfig):
    """A Transformer and the order in which its decoder writes."""

    bidirectional_directions: int = option(
        2,
        "h, directions of writing: 1 from left to right, 2 from both ends, 4 or more (even)"
        " from both ends of several segments",
    )
    bidirectional_tokens_per_step: int = option(
        1, "c, words that each direction writes in one decoder step; above 1: semi-autoregressive"
    )
    bidirectional_block: Optional[int] = option(
        None,
        "z, words of one decoder step where it is not directions times tokens per step: 1"
        " with two directions is an autoregressive model in interleaved order, the baseline"
        " of the mutual information",
    )
    bidirectional_distinct_starts: bool = option(
        False,
        "begin directions from right to left (with --bidirectional-middle-to-side: to the"
        " right end) with <s> and the others with </s>, instead of all with </s>: what is"
        " fine-tuned from a left-to-right model tells its ends apart from the first update"
        " on, otherwise it may take a thousand",
    )
    bidirectional_vanilla_mask: bool = option(
        False, "ablation: words of one step do not attend each other's inputs to their right"
    )
    bidirectional_vanilla_positions: bool = option(
        False, "ablation: count the positions 0, 1, 2, ... in the order of writing"
    )
    bidirectional_middle_to_side: bool = option(
        False, "ablation, two directions: write from the middle of the sentence to its ends"
    )
    bidirectional_independent_directions: bool = option(
        False, "ablation: a direction does not attend the words of the others"
    )


@with_decoding_options("bidirectional")
@dataclass
class BidirectionalTaskConfig(DistillationConfig, TranslationConfig):
    """Training samples and decoding."""

    bidirectional_train_dead_slots: bool = option(
        False, "teach the slots behind </s> in the last step of a sentence to write </s> too"
    )
    bidirectional_truncate_target: bool = option(
        False,
        "cut targets (references of every subset) that are longer than"
        " --max-target-positions at their end, before the words are put in order; without"
        " it fairseq leaves such pairs out",
    )
    seed: int = II("common.seed")
