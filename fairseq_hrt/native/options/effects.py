"""When each option of this package has an effect: one table, and the checks that read it.

An option that is given and does nothing is a mistake that nobody notices: it is refused by name,
with what it needs. Here stands what both engines read, so the standard library must do.

What is refused is what somebody gives now. Values that a checkpoint, a bundle or a grid holds for
other occasions are set aside where they have no effect (:func:`set_aside`): whoever decodes did not
write them.
"""

import math
import re
from dataclasses import dataclass, fields
from typing import Any, Container, Dict, Iterator, Mapping, Optional, Tuple

from .conditions import SUPPRESSING, Condition, at_least, chosen, flag, given, other_than, same
from .schema import CALLER, FAIRSEQ, SEVERAL_PATHS, Schema

# Owners of an option. Training looks at all of them, decoding at its own: the others are
# those of a training that is over.
MODEL, TRAINING, DECODING = "model", "training", "decoding"
EVERYTHING = (MODEL, TRAINING, DECODING)


@dataclass(frozen=True)
class Option:
    """An option, when it has an effect, and what it may be.

    Attributes:
        name: as in configurations.
        default: its value where nobody gives it.
        stage: MODEL, TRAINING or DECODING.
        when: what it needs; None: nothing.
        least, most: a number's limits.
        neutral: further values that ask for nothing.
        acts_as: what it amounts to where it has no effect. Then it is not refused but said, and
            shown as what it is.
    """

    name: str
    default: Any
    stage: str
    when: Optional[Condition] = None
    least: Optional[float] = None
    most: Optional[float] = None
    neutral: Tuple[Any, ...] = ()
    acts_as: Any = None

    def is_asked_for(self, value: Any) -> bool:
        """Whether a value asks for something: None and false are how options are left out."""
        return value is not None and not any(
            same(value, none) for none in (self.default, *self.neutral)
        )

    def has_effect(self, values: Mapping[str, Any]) -> bool:
        """Whether it has one beside these values of others."""
        return self.when is None or self.when.holds(values)

    def without_effect(self, value: Any) -> str:
        """The message for a value without effect."""
        shown = flag(self.name) if value is True else f"{flag(self.name)} {value}"
        return f"{shown} has an effect only with {self.when.text if self.when is not None else ''}"

    def check_range(self, value: Any) -> None:
        """Raises ValueError for a number beyond its limits."""
        wanted = []
        if self.least is not None and not value >= self.least:
            wanted.append(f"at least {self.least:g}")
        if self.most is not None and not value <= self.most:
            wanted.append(f"at most {self.most:g}")
        limited = self.least is not None or self.most is not None
        if not wanted and limited and isinstance(value, float) and not math.isfinite(value):
            wanted.append("a finite number")
        if wanted:
            raise ValueError(f"{flag(self.name)} {value} must be {' and '.join(wanted)}")


# Conditions of several options.
_SEVERAL_WORDS = Condition(
    "two or more words a step (--bidirectional-directions times --bidirectional-tokens-per-step,"
    " --bidirectional-block)",
    ("bidirectional_block", "bidirectional_directions", "bidirectional_tokens_per_step"),
    lambda block, directions, words: (block or directions * words) > 1,
)
_GLANCING = Condition(
    "a --dag-glance-schedule above 0",
    ("dag_glance_schedule",),
    lambda text: any(re.search("[1-9]", knot.partition("@")[0]) for knot in str(text).split(":")),
)
_DETOKENISED = Condition(
    "--eval-bleu, and without --eval-tokenized-bleu",
    ("eval_bleu", "eval_tokenized_bleu"),
    lambda measured, tokenised: measured and not tokenised,
)
_PREDICTED = chosen("dag_upsample_base", "predict")
_SEVERAL_PATHS = chosen("dag_decode_strategy", *SEVERAL_PATHS)


def _of_decoding() -> Iterator[Option]:
    """The options that the schema has beside fairseq's own."""
    for own in fields(Schema):
        known = own.metadata["option"]
        if known.origin not in (FAIRSEQ, CALLER):
            default = own.default if known.task_default is None else known.task_default
            yield Option(own.name, default, DECODING, known.when, neutral=(own.default,))


OPTIONS: Tuple[Option, ...] = (
    *_of_decoding(),
    # -- of several families
    Option("label_smoothing", 0.1, TRAINING),
    Option("distilled_data", None, TRAINING),
    Option("raw_probability", 0.0, TRAINING, given("distilled_data"), least=0, most=1),
    # A training hands no file on to later decodings.
    Option("rescore_path", None, TRAINING, given("eval_bleu")),
    Option("eval_bleu_tokenizer", None, TRAINING, _DETOKENISED),
    # -- of marian_transformer, and of those that start from one
    Option("marian_first_position", None, MODEL, least=0),
    Option("marian_epsilon", 1e-5, MODEL),
    Option("marian_output_bias", "no", MODEL),
    Option("marian_zero_start", "yes", MODEL),
    Option("marian_cell", "attention", MODEL),
    # -- hrt
    Option("hrt_chunk_sizes", [2], MODEL),
    Option("hrt_relative_window", 16, MODEL),
    Option("hrt_tail_target", "eos", MODEL),
    Option("hrt_curriculum_steps", None, TRAINING, other_than("hrt_curriculum_power", 0), least=1),
    Option("hrt_curriculum_power", 1.0, TRAINING, least=0),
    Option("hrt_truncate_target", False, TRAINING),
    Option("hrt_eval_autoregressive", False, TRAINING, given("eval_bleu")),
    # -- bidirectional
    Option("bidirectional_directions", 2, MODEL),
    Option("bidirectional_tokens_per_step", 1, MODEL),
    Option("bidirectional_block", None, MODEL),
    Option("bidirectional_distinct_starts", False, MODEL, at_least("bidirectional_directions", 2)),
    Option("bidirectional_vanilla_mask", False, MODEL, _SEVERAL_WORDS),
    Option("bidirectional_vanilla_positions", False, MODEL,
           at_least("bidirectional_directions", 2)),
    Option("bidirectional_middle_to_side", False, MODEL, chosen("bidirectional_directions", "2")),
    Option("bidirectional_independent_directions", False, MODEL,
           at_least("bidirectional_directions", 2)),
    Option("bidirectional_train_dead_slots", False, TRAINING, _SEVERAL_WORDS),
    Option("bidirectional_truncate_target", False, TRAINING),
    # -- dag
    Option("dag_upsample_base", "source", MODEL),
    Option("dag_upsample_scale", "8", MODEL),
    Option("dag_count_bos", False, MODEL, chosen("dag_upsample_base", "source")),
    Option("dag_max_transition_length", None, MODEL),
    Option("dag_link_features", "feature:position", MODEL),
    Option("dag_length_classes", 256, MODEL, _PREDICTED),
    Option("dag_bert_init", False, MODEL),
    Option("dag_filter_ratio", None, TRAINING),
    Option("dag_filter_ratio_low", None, TRAINING),
    Option("dag_max_vertices", None, TRAINING),
    Option("dag_batch_vertices", None, TRAINING),
    Option("dag_glance_schedule", "0.5:0.1@200k", TRAINING),
    Option("dag_glance_strategy", "number-random", TRAINING, _GLANCING),
    Option("dag_glance_forcing", "vertex", TRAINING, _GLANCING),
    # 0 is the default of one of the two losses, and what a model without a length head has.
    Option("dag_length_loss_factor", 0.1, TRAINING, _PREDICTED, neutral=(0.0,)),
    Option("dag_ngram_order", 2, TRAINING),
    # fairseq's own, where graphs are decoded. Whoever gives one beam to several decoders, or tunes
    # a beam and a strategy, need not leave it out for some of them; and fairseq's default of 5
    # cannot be told from a 5 that is given.
    Option("beam", 5, DECODING, _SEVERAL_PATHS, neutral=(1,), acts_as=1),
    Option("nbest", 1, DECODING, _SEVERAL_PATHS),
    Option("temperature", 1.0, DECODING, chosen("dag_decode_strategy", "sample")),
    Option("no_repeat_ngram_size", 0, DECODING, SUPPRESSING),
    Option("min_len", 1, DECODING, chosen("dag_decode_strategy", "beam"), neutral=(0,)),
    # Forbidden is what it is without the switch.
    Option("unkpen", 0.0, DECODING, given("dag_allow_unk"), neutral=(math.inf,)),
)  # fmt: skip
# fairseq's own have an effect elsewhere: these are read where a graph's strategy is known.
_OF_GRAPHS = frozenset(
    ("beam", "nbest", "temperature", "no_repeat_ngram_size", "min_len", "unkpen")
)
_READ = frozenset(
    name
    for option in OPTIONS
    for name in (option.name, *(option.when.reads if option.when else ()))
)


def read(*configurations: Any) -> Dict[str, Any]:
    """The values that the table speaks of, from mappings or objects with attributes; later ones go
    before earlier ones."""
    found: Dict[str, Any] = {}
    for configuration in configurations:
        # Not by hasattr(): the errors of an OmegaConf configuration keep the frames of all callers,
        # and so their generators, alive.
        held = configuration if isinstance(configuration, Mapping) else vars(configuration)
        found.update((name, held[name]) for name in _READ if name in held)
    return found


def defaults_of_model(family: str) -> Dict[str, Any]:
    """What a model has whose options are not given; their names begin with ``family``."""
    return {
        option.name: option.default
        for option in OPTIONS
        if option.stage == MODEL and option.name.startswith(f"{family}_")
    }


def _asked_for(values: Mapping[str, Any], stages: Container[str]) -> Iterator[Tuple[Option, bool]]:
    """Options that ask for something, and whether they have an effect."""
    for option in OPTIONS:
        known = option.name not in _OF_GRAPHS or "dag_decode_strategy" in values
        if option.stage in stages and known and option.is_asked_for(values.get(option.name)):
            yield option, option.has_effect(values)


def check(
    values: Mapping[str, Any],
    stages: Container[str] = (DECODING,),
    names: Optional[Container[str]] = None,
) -> None:
    """Refuses options that have no effect, or a value beyond their limits.

    Args:
        values: of options by their names (:func:`read`); those of others that matter among them.
        stages: which options are looked at.
        names: those that are given now; None: all.

    Raises:
        ValueError: naming the option, its value and what it needs.
    """
    for option, has_effect in _asked_for(values, stages):
        if names is not None and option.name not in names:
            continue
        value = values[option.name]
        if has_effect:
            option.check_range(value)
        elif option.acts_as is None:
            raise ValueError(option.without_effect(value))


def set_aside(values: Mapping[str, Any], names: Container[str]) -> Dict[str, Any]:
    """Decoding options that have no effect and that nobody gives now, with their defaults.

    Args:
        values: as for :func:`check`.
        names: those that are given now.
    """
    return {
        option.name: option.default
        for option, has_effect in _asked_for(values, (DECODING,))
        if not has_effect and option.name not in names
    }


def in_effect(values: Mapping[str, Any]) -> Tuple[Dict[str, Any], Tuple[str, ...]]:
    """The values of options without effect that are not refused, and a message for each that
    somebody seems to have given."""
    if "dag_decode_strategy" not in values:
        return {}, ()
    idle = [
        option for option in OPTIONS if option.acts_as is not None and not option.has_effect(values)
    ]
    said = [f"{option.without_effect(values[option.name])}; here it is {option.acts_as}"
            for option in idle if option.is_asked_for(values.get(option.name))]  # fmt: skip
    return {option.name: option.acts_as for option in idle}, tuple(said)
