"""Checks that decoding options fit a model and that the native engine supports them; converts them
for the kernel."""

import ctypes as C
import math
from dataclasses import dataclass, replace
from typing import Any, Container, Dict, List, Optional, Tuple

from ..families import FIRST_WORDS_BY, GRAPH_MODELS, candidates, decoders
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


@dataclass(frozen=True)
class SearchPlan:
    """Decoding options for one model, checked once and converted for the kernel. A plan serves any
    number of batches, from several threads.

    Attributes:
        options: the options; those without effect have their defaults.
        kernel: the same options as the kernel's structure ``fh_options``.
        table: the arrays to which ``kernel`` points, kept so that they live as long as it does.
        candidates: the most translations of a sentence that the search can find.
    """

    options: DecodingOptions
    kernel: binding.Options
    table: Any
    candidates: int

    def with_all(self) -> "SearchPlan":
        """A copy of the plan that returns all translations which the search finds, not only
        ``nbest``, for a rescorer to choose from."""
        kernel = binding.Options.from_buffer_copy(self.kernel)
        kernel.nbest = self.candidates
        return replace(self, kernel=kernel)


def plan_search(
    header: Header, options: DecodingOptions, given: Optional[Container[str]] = None
) -> SearchPlan:
    """Checks options against a model and converts them for the kernel.

    Args:
        header: the model's header.
        options: the decoding options.
        given: names of the options that the user gives now; these are refused if they have no
            effect. Other options without effect, such as a bundle's, get their defaults. None: all
            options count as given.

    Raises:
        UnsupportedOption: the native engine does not support an option; the message names it.
        ValueError: an option has no effect or does not fit the model; the message names it.
    """
    options = settled(options, header.family, given)
    require_native(options)
    _check_results(header, options)
    _check_first_words(header, options)
    for family in decoders(header.family):
        family.check_positions(options, header.longest_target, given)
    kernel, table = _for_kernel(header, options)
    found = candidates(header.family, options, header, words=header.target_vocabulary)
    return SearchPlan(options, kernel, table, found)


def _for_kernel(header: Header, options: DecodingOptions) -> Tuple[binding.Options, Any]:
    """Converts options to ``fh_options``. Also returns the arrays that this structure points to,
    which must live as long as the structure is used."""
    values: Dict[str, Any] = {
        option.kernel: _number(getattr(options, name), name)
        for name, option in SCHEMA.items()
        if option.kernel
    }
    values["normalize"] = options.normalize
    values["alignments"] = options.alignments or options.print_alignment is not None
    for family in decoders(header.family):
        values.update(family.kernel_options(header, options))
    # One entry for sources of any length, unless the family has a table of its own.
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
    """The most tokens that a translation can have with these options, ``</s>`` included."""
    return min(
        header.longest_target,
        int(options.max_len_a * header.longest_source + options.max_len_b) + 1,
    )


def _number(value: Any, name: str) -> Any:
    """Converts the value of option ``name`` for its field in ``fh_options``: a choice to its index
    (from 0, or from 1 if the option may be None), None to 0, other values unchanged."""
    option, (_, optional) = SCHEMA[name], KINDS[name]
    if value is None:
        return 0
    if option.choices:
        named = option.native if isinstance(option.native, tuple) else option.choices
        # Where None is a value, choices are numbered from 1.
        return named.index(value) + optional
    return value


def _check_first_words(header: Header, options: DecodingOptions) -> None:
    """Raises UnsupportedOption if first words are given (``--prefix-size``, ``--forced-start``) and
    the model does not write from left to right."""
    for name, value in (
        ("prefix_size", options.prefix_size),
        ("forced_start", options.forced_start),
    ):
        if value and not header.record.takes_first_words(header, options):
            raise UnsupportedOption(
                f"{flag(name)} {value}: first words can be given to models that write from left to"
                f" right ({FIRST_WORDS_BY}); leave {flag(name)} out"
            )


def _check_results(header: Header, options: DecodingOptions) -> None:
    """Raises ValueError if alignments or graphs are asked for and the model has none."""
    family = header.record
    if options.alignments and not family.writes_in_order(header):
        raise ValueError(
            f"alignments, which --replace-unk needs: the words of a {family.model} are not aligned"
            " with the source; leave both out, and give --unkpen inf to forbid <unk>"
        )
    if options.print_alignment is not None and not family.writes_in_order(header):
        raise ValueError(
            f"--print-alignment: the words of a {family.model} are not aligned with the source;"
            " leave this option out"
        )
    if options.graphs and not family.graphs:
        raise ValueError(
            f"graphs: a model of the family {family.name} writes no graph; give a {GRAPH_MODELS}"
        )
