"""Options of the family, with their help texts."""

import re
from dataclasses import dataclass
from typing import Any, Optional

from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.models.transformer import TransformerConfig
from fairseq.tasks.translation import TranslationConfig
from omegaconf import II

from ..native.options.conditions import Condition, chosen
from ..native.options.option import option
from ..training.task_options import with_decoding_options
from .glancing import FORCINGS, STRATEGIES

_PREDICTED = chosen("dag_upsample_base", "predict")


def _glances(schedule: Any) -> bool:
    """Whether a glancing schedule, e.g. ``0.5:0.1@200k``, has a value above 0."""
    knots = str(schedule).split(":")
    return any(re.search("[1-9]", knot.partition("@")[0]) for knot in knots)


_GLANCING = Condition("a --dag-glance-schedule above 0", ("dag_glance_schedule",), _glances)
_SCHEDULED = Condition(
    "a --dag-glance-strategy other than cmlm, which draws its own shares",
    ("dag_glance_strategy", "dag_glance_schedule"),
    lambda strategy, schedule: str(strategy) != "cmlm" or not _glances(schedule),
)


@dataclass
class DagModelConfig(TransformerConfig):
    """fairseq's Transformer options and those of the graph that the decoder writes."""

    dag_upsample_base: ChoiceEnum(["source", "source-words", "predict"]) = option(
        "source",
        "size L of the graph: source = scale * source tokens; source-words = scale * source words,"
        " and </s> (and <s>, where it is read) besides; predict = scale * target words + 2, which a"
        " length head predicts for decoding",
    )
    dag_upsample_scale: str = option(
        "8",
        "the scale (lambda); a range such as 4~8 draws one for each sentence in training"
        " and takes the middle elsewhere",
    )
    dag_count_bos: bool = option(
        False,
        "count a start symbol as source token when L is computed, as the papers' own runs did",
        when=chosen("dag_upsample_base", "source"),
    )
    dag_read_bos: bool = option(
        False,
        "the encoder reads a start symbol before the source, as FA-DAT's own runs did; it counts as"
        " a source token",
    )
    dag_max_transition_length: Optional[int] = option(
        None, "a vertex only leads to this many following ones; default: to all of them"
    )
    dag_link_features: str = option(
        "feature:position",
        "what links are computed from, joined by colons: feature (the decoder's output),"
        " position (a learned table of its own), sinposition (sinusoids)",
    )
    dag_length_classes: int = option(
        256,
        "differences of target and source length that the length head tells apart (predict only)",
        when=_PREDICTED,
    )
    dag_absolute_lengths: bool = option(
        False,
        "the length head tells apart the target's words themselves, from 0 on, whatever the"
        " source's length",
        when=_PREDICTED,
    )
    dag_bert_init: bool = option(
        False,
        "initialise all linear layers and embeddings as BERT does (normal, deviation 0.02)",
        when=Condition(
            "new embeddings, which it initialises: leave --encoder-embed-path and"
            " --decoder-embed-path out",
            ("encoder_embed_path", "decoder_embed_path"),
            lambda *paths: not any(paths),
        ),
    )


@with_decoding_options("dag")
@dataclass
class DagTaskConfig(TranslationConfig):
    """Options of ``translation_dag``, for training pairs and decoding."""

    dag_filter_ratio: Optional[float] = option(
        None,
        "leave out training pairs whose target has more than this many times the tokens of"
        " its source; a value below the scale removes all targets that are longer than"
        " their graph. Other splits are never filtered by it",
    )
    dag_filter_ratio_low: Optional[float] = option(
        None,
        "leave out training pairs whose target has fewer than this many times the tokens of"
        " its source",
    )
    dag_max_vertices: Optional[int] = option(
        None,
        "leave out training pairs whose graph would have more vertices than this (at the"
        " upper end of --dag-upsample-scale); default: none, graphs end at the decoder's"
        " maximum positions",
    )
    dag_batch_vertices: Optional[int] = option(
        None,
        "vertices that the graphs of a training batch may have together, padding counted"
        " (at the upper end of --dag-upsample-scale): what memory is spent on, where"
        " --max-tokens counts words; larger batches are divided",
    )
    seed: int = II("common.seed")


@dataclass
class DagLossConfig(FairseqDataclass):
    """Options that ``dag_nll_loss`` and ``dag_fuzzy_loss`` have in common."""

    dag_glance_schedule: str = option(
        "0.5:0.1@200k",
        "share of wrongly predicted tokens that the decoder is shown in training:"
        " VALUE@UPDATE joined by colons, linear between them, k = thousand; 0 switches"
        " glancing off (--dag-glance-strategy cmlm draws its own shares, and ends only with 0"
        " from the beginning)",
        when=_SCHEDULED,
    )
    dag_glance_strategy: ChoiceEnum(list(STRATEGIES)) = option(
        "number-random",
        "number-random: exactly the share of the wrong ones, drawn among all vertices of"
        " the best path; bernoulli: each with that chance; fix: the share of all tokens;"
        " cmlm: a share drawn for each sentence",
        when=_GLANCING,
    )
    dag_length_loss_factor: float = option(
        0.1,
        "weight of the length head's cross-entropy, in nats a sentence (--dag-upsample-base"
        " predict)",
        when=_PREDICTED,
        # A model without a length head has no such loss.
        neutral=(0.0,),
    )
    sentence_avg: bool = II("optimization.sentence_avg")


@dataclass
class DagNllLossConfig(DagLossConfig):
    """Options of ``dag_nll_loss``, the target's negative log-likelihood over all paths."""

    dag_glance_forcing: ChoiceEnum(list(FORCINGS)) = option(
        "vertex",
        "what shown vertices may do in the loss: vertex = emit their own token only,"
        " without a gradient, or be passed by; path = the path must pass them, their token"
        " is free; none = as any other vertex",
        when=_GLANCING,
    )


@dataclass
class DagFuzzyLossConfig(DagLossConfig):
    """Options of ``dag_fuzzy_loss``, which rewards fuzzy n-gram matches."""

    dag_glance_schedule: str = option(
        "0.1", "see dag_nll_loss; constant in the paper's fine-tuning", when=_SCHEDULED
    )
    dag_length_loss_factor: float = option(
        0.0,
        "see dag_nll_loss; 0: fine-tuning leaves the length head alone, whose cross-entropy"
        " is many times the size of this loss",
        when=_PREDICTED,
    )
    dag_ngram_order: int = option(
        2, "n of the n-grams that are matched; one order, not a sum over orders"
    )
