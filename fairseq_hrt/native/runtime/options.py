"""Decoding options as the kernel takes them, checked against a model; what the native engine does
not honour is refused by name."""

import ctypes as C
import logging
import math
from dataclasses import replace
from typing import Any, Container, Dict, List, Tuple

from ..families import BY_NAME, FAMILIES, FIRST_WORDS_BY, GRAPH_MODELS, decoders
from ..options import effects
from ..options.option import Option
from ..options.schema import CALLER
from ..options.values import (
    SCHEMA,
    DecodingOptions,
    UnsupportedOption,
    flag,
    require_native,
)
from . import binding
from .format import Header

logger = logging.getLogger(__name__)


def writes_in_order(header: Header) -> bool:
    """Whether the model can write one word after the other."""
    return BY_NAME[header.family].writes_in_order(header)


def takes_first_words(header: Header, options: DecodingOptions) -> bool:
    """Whether every translation can begin with given words: what is written comes word by word from
    left to right."""
    return BY_NAME[header.family].takes_first_words(header, options)


def options_for(header: Header, options: DecodingOptions) -> Tuple[binding.Options, Any]:
    """The options for C, checked against the model, and what has to stay while they are used.

    Raises:
        UnsupportedOption, ValueError: by name.
    """
    check_effects(header, options)
    require_native(options)
    _check_results(header, options)
    for name, value in (
        ("prefix_size", options.prefix_size),
        ("forced_start", options.forced_start),
    ):
        if value and not takes_first_words(header, options):
            raise UnsupportedOption(
                f"{flag(name)} {value}: first words can be given to models that write from left to"
                f" right ({FIRST_WORDS_BY})"
            )
    values: Dict[str, Any] = {
        option.kernel: _number(getattr(options, name), option)
        for name, option in SCHEMA.items()
        if option.kernel
    }
    values["normalize"] = options.normalize
    values["alignments"] = options.alignments or options.print_alignment is not None
    for family in decoders(header.family):
        values.update(family.kernel_options(header, options))
    # Of sources of any length, unless the family has a table of its own.
    table: List[Tuple[float, int]] = values.pop("table", [(math.inf, 1)])
    limits = (C.c_double * len(table))(*(limit for limit, _ in table))
    chunks = (C.c_int32 * len(table))(*(size for _, size in table))
    found = binding.Options(**values, table_size=len(table))
    found.table_limits, found.table_chunks = (
        C.cast(limits, C.POINTER(C.c_double)),
        C.cast(chunks, C.POINTER(C.c_int32)),
    )
    return found, (limits, chunks)


def longest_written(header: Header, options: DecodingOptions) -> int:
    """Most tokens of a translation, ``</s>`` included."""
    return min(
        header.longest_target,
        int(options.max_len_a * header.longest_source + options.max_len_b) + 1,
    )


def _number(value: Any, option: Option) -> Any:
    """A value as its field in ``fh_options``: the number of a choice; what is left open is 0."""
    if value is None:
        return 0
    if option.choices:
        named = option.native if isinstance(option.native, tuple) else option.choices
        # An option that may be left open counts its choices from 1.
        return named.index(value) + (option.task_default is not None)
    return value


def settled(header: Header, options: DecodingOptions, given: Container[str]) -> DecodingOptions:
    """The options without those that have no effect and that nobody gives now; others of them
    amount to something, which is logged.

    Args:
        given: names of the options that are given now; the others are a bundle's, a grid's or a
            system's.

    Raises:
        ValueError: one that is given has no effect.
    """
    known, defaults = options.of_family(header.family), DecodingOptions()
    left = {
        name: getattr(defaults, name)
        for name, option in SCHEMA.items()
        if option.origin != CALLER and name not in known and name not in given
    }
    aside = {
        name: value for name, value in effects.set_aside(known, given).items() if name in SCHEMA
    }
    options = replace(options, **{**left, **aside})
    check_effects(header, options)
    effective, messages = effects.in_effect(options.of_family(header.family))
    for message in messages:
        logger.warning(message)
    return replace(options, **effective)


def check_effects(header: Header, options: DecodingOptions) -> None:
    """Refuses options that have no effect with a model, those of other families among them.

    Raises:
        ValueError: by name.
    """
    known = options.of_family(header.family)
    for name, value in options.changed().items():
        origin = SCHEMA[name].origin
        if origin != CALLER and name not in known:
            family = next(own.decodes or own.name for own in FAMILIES if own.name == origin)
            raise ValueError(
                f"{flag(name)} {value} belongs to models of the family {family}, and this one is of"
                f" the family {header.family}"
            )
    effects.check(known)


def _check_results(header: Header, options: DecodingOptions) -> None:
    """Refuses alignments and graphs of models that have none."""
    family = BY_NAME[header.family]
    if options.alignments and not writes_in_order(header):
        raise ValueError(
            f"alignments: the words of a {family.model} are not aligned with the source;"
            " --unkpen inf forbids <unk>"
        )
    if options.print_alignment is not None and not writes_in_order(header):
        raise ValueError(
            f"--print-alignment: the words of a {family.model} are not aligned with the source"
        )
    if options.graphs and not family.graphs:
        raise ValueError(
            f"graphs: a model of the family {family.name} writes no graph; give a {GRAPH_MODELS}"
        )
