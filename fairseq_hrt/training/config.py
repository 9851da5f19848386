"""Options that several families share, with their help texts, which are written only here.

The dataclasses are written as fairseq reads them: no ``from __future__ import annotations``,
``Optional[int]`` and ``List[int]`` as they are, ``ChoiceEnum`` for choices, booleans default to
False, no percent sign in a help text.
"""

from dataclasses import dataclass
from typing import List, Optional

from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.models.transformer import TransformerConfig
from fairseq.utils import get_available_activation_fns
from omegaconf import II

from ..native.options.conditions import Condition, given
from ..native.options.option import option

# fairseq's choices, and swish: its Transformers have it, its options do not.
ACTIVATIONS: List[str] = [*get_available_activation_fns(), "swish"]
FAIRSEQ_EPSILON = 1e-5
# Whether an encoder or decoder counts positions by sinusoids.
SINUSOIDS = Condition(
    "sinusoidal positions: leave --no-token-positional-embeddings, --encoder-learned-pos or"
    " --decoder-learned-pos out",
    ("no_token_positional_embeddings", "encoder_learned_pos", "decoder_learned_pos"),
    lambda without, *learned: not (without or all(learned)),
)


@dataclass
class DistillationConfig(FairseqDataclass):
    """Options for mixed distillation: training on raw and distilled targets of the same sources."""

    distilled_data: Optional[str] = option(
        None,
        "folder with the same binarised sources and the targets that a teacher translated;"
        " one folder for each folder of the data, separated by colons. Without it the"
        " training uses the data as they are",
    )
    raw_probability: float = option(
        0.0,
        "probability that a sentence is trained on its raw target instead of the distilled"
        " one, drawn anew for each update; only with --distilled-data",
        least=0,
        most=1,
        when=given("distilled_data"),
    )


@dataclass
class SmoothedLossConfig(FairseqDataclass):
    """Options of a criterion with label smoothing."""

    label_smoothing: float = option(0.1, "epsilon of label smoothing, 0 for none")
    sentence_avg: bool = II("optimization.sentence_avg")


@dataclass
class ConventionsConfig(TransformerConfig):
    """Options of a Transformer that can follow the conventions of other toolkits, such as the first
    position or the epsilon of normalisations (:mod:`.conventions`); the defaults are fairseq's."""

    activation_fn: ChoiceEnum(ACTIVATIONS) = option("relu", "activation function to use")
    marian_first_position: Optional[int] = option(
        None,
        "position whose sinusoid the first word gets: 0 to start from a marian_transformer;"
        " default: 2",
        when=SINUSOIDS,
    )
    marian_epsilon: float = option(
        FAIRSEQ_EPSILON,
        "epsilon of the layer normalisations: 1e-6 to start from most models of Marian",
    )
    marian_output_bias: ChoiceEnum(["yes", "no"]) = option(
        "no", "whether the output projection has a bias: yes to start from most models of Marian"
    )
