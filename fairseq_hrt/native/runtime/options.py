"""Decoding options as the kernel takes them, checked against a model; what the native engine does
not honour is refused by name."""

import ctypes as C
import math
from dataclasses import dataclass, replace
from typing import Any, Container, Dict, List, Optional, Tuple

from ..families import BY_NAME, GRAPH_MODELS, candidates, decoders
from ..options.effects import settled
from ..options.values import (
    KINDS,
    SCHEMA,
    DecodingOptions,
    UnsupportedOption,
    flag,
    require_native,
)
from . import binding
from .format import Header


def writes_in_order(header: Header) -> bool:
    """Whether the model can write one word after the other."""
    return BY_NAME[header.family].writes_in_order(header)


def takes_first_words(header: Header, options: DecodingOptions) -> bool:
    """Whether every translation can begin with given words, because the model writes word by word
    from left to right."""
    return BY_NAME[header.family].takes_first_words(header, options)


@dataclass(frozen=True)
class SearchPlan:
    """How a model is searched: its options, checked against it once, and what the kernel gets of
    them. It serves for any number of batches, from several threads.

    Attributes:
        options: defaults in place of those without effect.
        kernel: ``fh_options``.
        table: the arrays that ``kernel`` points to.
        candidates: most translations of a sentence that the search finds.
    """

    options: DecodingOptions
    kernel: binding.Options
    table: Any
    candidates: int

    def with_all(self) -> "SearchPlan":
        """The same, for all translations that the search finds: another model will choose."""
        kernel = binding.Options.from_buffer_copy(self.kernel)
        kernel.nbest = self.candidates
        return replace(self, kernel=kernel)


def plan_search(
    header: Header, options: DecodingOptions, given: Optional[Container[str]] = None
) -> SearchPlan:
    """Options checked against a model, as the kernel takes them.

    Args:
        given: names of the options that somebody gives now: one of them without effect is refused.
            Others, which are a bundle's, a grid's or a system's, are set aside there. None: all.

    Raises:
        UnsupportedOption, ValueError: by name.
    """
    options = settled(options, header.family, given)
    require_native(options)
    _check_results(header, options)
    _check_first_words(header, options)
    kernel, table = _for_kernel(header, options)
    found = candidates(header.family, options, header, words=header.target_vocabulary)
    return SearchPlan(options, kernel, table, found)


def _for_kernel(header: Header, options: DecodingOptions) -> Tuple[binding.Options, Any]:
    """``fh_options``, and the arrays that it points to."""
    values: Dict[str, Any] = {
        option.kernel: _number(getattr(options, name), name)
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


def _number(value: Any, name: str) -> Any:
    """A value as its field in ``fh_options``. A choice becomes its number, None becomes 0."""
    option, (_, optional) = SCHEMA[name], KINDS[name]
    if value is None:
        return 0
    if option.choices:
        named = option.native if isinstance(option.native, tuple) else option.choices
        # An option that may be left open counts its choices from 1.
        return named.index(value) + optional
    return value


def _check_first_words(header: Header, options: DecodingOptions) -> None:
    """Refuses first words where translations are not written word by word from left to right."""
    for name, value in (
        ("prefix_size", options.prefix_size),
        ("forced_start", options.forced_start),
    ):
        if value and not takes_first_words(header, options):
            raise UnsupportedOption(
                f"{flag(name)} {value}: first words can be given to models that write from left to"
                " right (hrt with --hrt-decode-chunk 1, bidirectional with one direction)"
            )


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
