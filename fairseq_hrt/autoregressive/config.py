"""Options of Marian's models, with their help texts."""

from dataclasses import dataclass
from typing import Optional

from fairseq.dataclass import ChoiceEnum

from ..native.options.option import option
from ..training import ACTIVATIONS, ConventionsConfig
from ..training.config import SINUSOIDS


@dataclass
class MarianModelConfig(ConventionsConfig):
    """fairseq's Transformer options and those for Marian's conventions (activation, first position,
    epsilon, output bias, start vector and recurrent cells), with Marian's values as defaults."""

    activation_fn: ChoiceEnum(ACTIVATIONS) = option("swish", "activation function to use")
    marian_first_position: Optional[int] = option(
        0,
        "position whose sinusoid the first word gets; fairseq's own Transformers begin at 2",
        when=SINUSOIDS,
    )
    marian_epsilon: float = option(
        1e-6, "epsilon of the layer normalisations; fairseq's own Transformers have 1e-5"
    )
    marian_output_bias: ChoiceEnum(["yes", "no"]) = option(
        "yes", "whether the output projection has a bias"
    )
    marian_zero_start: ChoiceEnum(["yes", "no"]) = option(
        "yes",
        "whether the decoder's first input is a vector of zeros instead of the embedding of </s>",
    )
    marian_cell: ChoiceEnum(["attention", "ssru"]) = option(
        "attention",
        "how a decoder layer sees the words before: self-attention, or a recurrent unit (SSRU)",
    )
