"""Options of the family, with their help texts."""

from dataclasses import dataclass, field
from typing import Optional

from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.models.transformer import TransformerConfig
from fairseq.tasks.translation import TranslationConfig
from omegaconf import II

from ..decoding import RescoringConfig
from .glancing import FORCINGS, STRATEGIES


@dataclass
class DagModelConfig(TransformerConfig):
    """A Transformer and the graph that its decoder writes."""

    dag_upsample_base: ChoiceEnum(["source", "predict"]) = field(
        default="source",
        metadata={
            "help": "size L of the graph: source = scale * source tokens; predict = scale * target words + 2, which a "
            "length head predicts for decoding"
        },
    )
    dag_upsample_scale: str = field(
        default="8",
        metadata={
            "help": "the scale (lambda); a range such as 4~8 draws one for each sentence in training and takes the "
            "middle elsewhere"
        },
    )
    dag_count_bos: bool = field(
        default=False,
        metadata={"help": "count a start symbol as source token when L is computed, as the papers' own runs did"},
    )
    dag_max_transition_length: Optional[int] = field(
        default=None,
        metadata={"help": "a vertex only leads to this many following ones; default: to all of them"},
    )
    dag_link_features: str = field(
        default="feature:position",
        metadata={
            "help": "what links are computed from, joined by colons: feature (the decoder's output), position (a learned "
            "table of its own), sinposition (sinusoids)"
        },
    )
    dag_length_classes: int = field(
        default=256,
        metadata={"help": "differences of target and source length that the length head tells apart (predict only)"},
    )
    dag_bert_init: bool = field(
        default=False,
        metadata={"help": "initialise all linear layers and embeddings as BERT does (normal, deviation 0.02)"},
    )


@dataclass
class DagTaskConfig(RescoringConfig, TranslationConfig):
    """Training pairs and decoding."""

    dag_filter_ratio: Optional[float] = field(
        default=None,
        metadata={
            "help": "leave out training pairs whose target has more than this many times the tokens of its source; a "
            "value below the scale removes all targets that are longer than their graph. Other splits are never filtered by it"
        },
    )
    dag_filter_ratio_low: Optional[float] = field(
        default=None,
        metadata={"help": "leave out training pairs whose target has fewer than this many times the tokens of its source"},
    )
    dag_max_vertices: Optional[int] = field(
        default=None,
        metadata={
            "help": "leave out training pairs whose graph would have more vertices than this (at the upper end of "
            "--dag-upsample-scale); default: none, graphs end at the decoder's maximum positions"
        },
    )
    dag_batch_vertices: Optional[int] = field(
        default=None,
        metadata={
            "help": "vertices that the graphs of a training batch may have together, padding counted (at the upper end of "
            "--dag-upsample-scale): what memory is spent on, where --max-tokens counts words; larger batches are divided"
        },
    )
    dag_decode_upsample_scale: Optional[float] = field(
        default=None,
        metadata={"help": "scale of the graph in decoding; default: that of the training, the middle of a range"},
    )
    dag_decode_strategy: ChoiceEnum(["greedy", "lookahead", "viterbi", "joint-viterbi", "beam", "sample"]) = field(
        default="lookahead",
        metadata={
            "help": "greedy: follow the best link; lookahead: the best link times the best token behind it; viterbi, "
            "joint-viterbi: the best whole path, without or with its tokens; beam: the most probable text over all "
            "paths (--beam, --lenpen, --nbest); sample: draw links and tokens (--temperature)"
        },
    )
    dag_decode_beta: float = field(
        default=1.0,
        metadata={
            "help": "weight of the token's log-probability in lookahead, sample and beam; to be tuned on the validation set for each "
            "model (fairseq-hrt tune)"
        },
    )
    dag_decode_length_beta: float = field(
        default=1.0,
        metadata={
            "help": "viterbi, joint-viterbi: paths are ranked by log-probability / (inner vertices to this power); "
            "larger: longer output. To be tuned on the validation set for each model (fairseq-hrt tune)"
        },
    )
    dag_keep_repeats: bool = field(
        default=False,
        metadata={
            "help": "print words that immediately repeat the word before. Without it they are left out, and the searches know it: they "
            "count and rank what is printed"
        },
    )
    dag_allow_unk: bool = field(
        default=False,
        metadata={"help": "vertices may write the unknown word, less --unkpen; without it they write their best known word"},
    )
    dag_no_repeat_consecutive: int = field(
        default=0,
        metadata={
            "help": "lookahead, sample: no n-gram of up to this size may immediately repeat itself (0: no rule); n-grams "
            "anywhere are suppressed by --no-repeat-ngram-size"
        },
    )
    dag_candidates: int = field(
        default=5,
        metadata={"help": "tokens of each vertex and steps that are candidates under repeat suppression and in sample"},
    )
    dag_sample_topp: float = field(
        default=1.0, metadata={"help": "sample: draw from the most probable candidates that together have this share"}
    )
    dag_lm_path: Optional[str] = field(
        default=None,
        metadata={"help": "beam: n-gram language model of target subwords, read by the package kenlm"},
    )
    dag_lm_weight: float = field(
        default=0.1, metadata={"help": "beam: weight of the language model's log-probability (natural logarithm)"}
    )
    seed: int = II("common.seed")


@dataclass
class DagLossConfig(FairseqDataclass):
    """What both losses share."""

    dag_glance_schedule: str = field(
        default="0.5:0.1@200k",
        metadata={
            "help": "share of wrongly predicted tokens that the decoder is shown in training: VALUE@UPDATE joined by "
            "colons, linear between them, k = thousand; 0 switches glancing off"
        },
    )
    dag_glance_strategy: ChoiceEnum(list(STRATEGIES)) = field(
        default="number-random",
        metadata={
            "help": "number-random: exactly the share of the wrong ones, drawn among all vertices of the best path; "
            "bernoulli: each with that chance; fix: the share of all tokens; cmlm: a share drawn for each sentence"
        },
    )
    dag_length_loss_factor: float = field(
        default=0.1,
        metadata={"help": "weight of the length head's cross-entropy, in nats a sentence (--dag-upsample-base predict)"},
    )


@dataclass
class DagNllLossConfig(DagLossConfig):
    """Negative log-likelihood over all paths."""

    dag_glance_forcing: ChoiceEnum(list(FORCINGS)) = field(
        default="vertex",
        metadata={
            "help": "what shown vertices may do in the loss: vertex = emit their own token only, without a gradient, or be "
            "passed by; path = the path must pass them, their token is free; none = as any other vertex"
        },
    )


@dataclass
class DagFuzzyLossConfig(DagLossConfig):
    """Fuzzy n-gram alignment."""

    dag_glance_schedule: str = field(
        default="0.1", metadata={"help": "see dag_nll_loss; constant in the paper's fine-tuning"}
    )
    dag_length_loss_factor: float = field(
        default=0.0,
        metadata={
            "help": "see dag_nll_loss; 0: fine-tuning leaves the length head alone, whose cross-entropy is many times the size of this loss"
        },
    )
    dag_ngram_order: int = field(
        default=2, metadata={"help": "n of the n-grams that are matched; one order, not a sum over orders"}
    )
