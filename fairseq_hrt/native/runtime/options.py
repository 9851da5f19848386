"""Decoding options as the kernel takes them, checked against a model; what the native engine does
not honour is refused by name."""

import ctypes as C
import math
from dataclasses import dataclass, replace
from typing import Any, Container, Dict, List, Optional, Tuple

from ..options.chunk_sizes import chunk_table, settled_hrt
from ..options.effects import settled
from ..options.values import (
    COPIES,
    KINDS,
    SCHEMA,
    DecodingOptions,
    UnsupportedOption,
    check_dag,
    check_jacobi,
    flag,
    require_native,
)
from . import binding
from .format import Header


def writes_in_order(header: Header) -> bool:
    """Whether the model can write one word after the other: plainly, or as hrt with C_d = 1."""
    return header.family != "dag" and (
        header.family != "bidirectional" or (header.block, header.directions) == (1, 1)
    )


def takes_first_words(header: Header, options: DecodingOptions) -> bool:
    """Whether every translation can begin with given words, because the model writes word by word
    from left to right."""
    if header.family == "hrt":
        return bool(options.hrt_draft_chunk) or {
            size for _, size in chunk_table(options, header.chunk_sizes)
        } == {1}
    return header.family != "dag" and header.directions == 1


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
    if options.jacobi_mode is not None:
        check_jacobi(options)
        words = header.source_vocabulary, header.target_vocabulary
        if options.jacobi_draft == "source" and words[0] != words[1]:
            raise ValueError(
                f"{COPIES}; this model has {words[0]} source and {words[1]} target words"
            )
    if header.family == "dag":
        check_dag(options)
    kernel, table = _for_kernel(header, options)
    candidates = options.candidates(
        header.family, words=header.target_vocabulary, trained=header.chunk_sizes
    )
    return SearchPlan(options, kernel, table, candidates)


def _for_kernel(header: Header, options: DecodingOptions) -> Tuple[binding.Options, Any]:
    """``fh_options``, and the arrays that it points to."""
    table: List[Tuple[float, int]] = [(math.inf, 1)]
    if header.family == "hrt":
        table = chunk_table(options, header.chunk_sizes)
        options = settled_hrt(options, table)
    values: Dict[str, Any] = {
        option.kernel: _number(getattr(options, name), name)
        for name, option in SCHEMA.items()
        if option.kernel
    }
    values["normalize"] = options.normalize
    values["scale"] = options.dag_decode_upsample_scale or header.scale or 1.0
    values["alignments"] = options.alignments or options.print_alignment is not None
    if header.family == "dag" and not options.dag_allow_unk:
        values["unkpen"] = math.inf
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
    """A value as its field in ``fh_options``. A choice becomes its number, None becomes 0, or -1
    where 0 is a value."""
    option, (_, optional) = SCHEMA[name], KINDS[name]
    if option.choices:
        named = option.native if isinstance(option.native, tuple) else option.choices
        # An option that may be left open counts its choices from 1.
        return 0 if value is None else named.index(value) + optional
    if value is None:
        return -1 if option.least == 0 else 0
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
    family = header.family
    if options.alignments and not writes_in_order(header):
        raise ValueError(
            f"alignments: the words of a {family}_transformer are not aligned with the source;"
            " --unkpen inf forbids <unk>"
        )
    if options.print_alignment is not None and not writes_in_order(header):
        raise ValueError(
            f"--print-alignment: the words of a {family}_transformer are not aligned with the"
            " source"
        )
    if options.graphs and family != "dag":
        raise ValueError(
            f"graphs: a model of the family {family} writes no graph; give a dag_transformer"
        )
