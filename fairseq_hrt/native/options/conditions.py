"""Conditions under which an option has an effect, in terms of other options' values; and how
the names and values of options are written. Standard library only."""

import difflib
from dataclasses import dataclass
from typing import Any, Callable, Mapping, Sequence, Tuple


def flag(name: str) -> str:
    """The name of an option as it is written on a command line: ``--max-len-a``."""
    return "--" + name.replace("_", "-")


def option_text(value: Any) -> str:
    """The value of an option as a text, as it is written on a command line: True becomes
    ``"true"``, which stands for a switch, and False ``"false"``, with which the option, switch or
    not, counts as not given."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def did_you_mean(given: str, known: Sequence[str]) -> str:
    """The end of a message about an unknown name: ``; did you mean beam?`` with the most similar of
    the ``known`` names, or an empty text if none is similar."""
    close = difflib.get_close_matches(given, known, n=1)
    return f"; did you mean {close[0]}?" if close else ""


@dataclass(frozen=True)
class Condition:
    """The condition under which an option has an effect.

    Attributes:
        text: the condition in words, which follow "has an effect only with" in a message.
        reads: names of the options that the condition depends on.
        test: called with the values of these options, in the order of ``reads``; returns whether
            the condition holds.
    """

    text: str
    reads: Tuple[str, ...]
    test: Callable[..., bool]

    def holds(self, values: Mapping[str, Any]) -> bool:
        """Whether the condition holds for ``values``, {option: value}. True if an option that the
        condition depends on is missing: a training does not know the strategy of a later
        decoding."""
        return any(name not in values for name in self.reads) or self.test(
            *(values[name] for name in self.reads)
        )

    def missing(self, values: Mapping[str, Any]) -> str:
        """The condition in words for a message, if it does not hold for ``values``: ``text``, or,
        of two conditions joined by ``&``, that of the first which does not."""
        return self.text

    def __and__(self, other: "Condition") -> "Condition":
        return _Both(
            f"{self.text} and {other.text}", self.reads + other.reads, lambda *_: True, self, other
        )


@dataclass(frozen=True)
class _Both(Condition):
    """Two conditions that both have to hold. They are tested separately: where an option is
    missing, only the condition that reads it counts as true."""

    one: Condition
    other: Condition

    def holds(self, values: Mapping[str, Any]) -> bool:
        return self.one.holds(values) and self.other.holds(values)

    def missing(self, values: Mapping[str, Any]) -> str:
        return (self.other if self.one.holds(values) else self.one).missing(values)


def chosen(name: str, *choices: str) -> Condition:
    """The condition that option ``name`` has one of the values ``choices``."""
    return Condition(
        f"{flag(name)} {' or '.join(choices)}", (name,), lambda value: str(value) in choices
    )


def given(name: str) -> Condition:
    """The condition that option ``name`` has a value or, if it is a switch, is on."""
    return Condition(flag(name), (name,), lambda value: value is not None and value is not False)


def other_than(name: str, value: Any) -> Condition:
    """The condition that option ``name`` has another value than ``value``."""
    return Condition(
        f"{flag(name)} other than {value}", (name,), lambda found: not same(found, value)
    )


def at_least(name: str, least: int) -> Condition:
    """The condition that option ``name``, a number, is at least ``least``."""
    return Condition(f"{flag(name)} {least} or more", (name,), lambda value: value >= least)


def same(value: Any, other: Any) -> bool:
    """Whether two values of an option are equal, either as they are or converted to strings."""
    # Choices are enumerations in configurations, texts elsewhere.
    return bool(value == other) or str(value) == str(other)


def _in_chunks(chunk: Any, table: Any) -> bool:
    # A table that cannot be read is refused elsewhere.
    entries = str(table).split(",") if str(chunk) == "auto" else [str(chunk)]
    return any(entry.rpartition(":")[2].strip().lstrip("0") != "1" for entry in entries)


# Conditions that several options share.
IN_CHUNKS = Condition(
    "--hrt-decode-chunk other than 1, or auto with another size than 1 in --hrt-chunk-table",
    ("hrt_decode_chunk", "hrt_chunk_table"),
    _in_chunks,
)
# As many translations are drawn as are wanted, whatever the beam.
SEVERAL_DRAWN = Condition(
    "--nbest 2 or more, or --rescore-path, where paths are drawn",
    ("dag_decode_strategy", "nbest", "rescore_path"),
    lambda strategy, nbest, judge: str(strategy) != "sample" or nbest > 1 or judge is not None,
)
SUPPRESSING = chosen("dag_decode_strategy", "lookahead", "sample")
WITH_CANDIDATES = Condition(
    "--dag-decode-strategy sample, or lookahead with --dag-no-repeat-consecutive or"
    " --no-repeat-ngram-size",
    ("dag_decode_strategy", "dag_no_repeat_consecutive", "no_repeat_ngram_size"),
    lambda strategy, *sizes: (
        str(strategy) == "sample" or (str(strategy) == "lookahead" and any(sizes))
    ),
)
MERGING = Condition(
    "--dag-decode-strategy lookahead, viterbi or joint-viterbi, and without --dag-keep-repeats, "
    "--dag-no-repeat-consecutive and --no-repeat-ngram-size",
    (
        "dag_decode_strategy",
        "dag_keep_repeats",
        "dag_no_repeat_consecutive",
        "no_repeat_ngram_size",
    ),
    lambda strategy, keeps, *sizes: (
        str(strategy) in ("lookahead", "viterbi", "joint-viterbi") and not (keeps or any(sizes))
    ),
)
FRONTIER = chosen("jacobi_mode", "frontier")
NORMALISED = Condition(
    "scores divided by lengths: remove --unnormalized",
    ("unnormalized",),
    lambda unnormalized: not unnormalized,
)
