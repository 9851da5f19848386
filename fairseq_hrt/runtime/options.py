"""Decoding options as the kernel takes them, checked against a model; what the native engine does not honour is refused by name."""

import ctypes as C
import math
from typing import Any, Dict, List, Sequence, Tuple

from ..options import (
    SCHEMA,
    DecodingOptions,
    Option,
    UnsupportedOption,
    check_dag,
    check_hrt,
    check_jacobi,
    chunk_table,
    flag,
    require_native,
)
from . import binding
from .format import Header


def writes_in_order(header: Header) -> bool:
    """Whether the model can write one word after the other: plainly, or as hrt with C_d = 1."""
    return header.family != "dag" and (header.family != "bidirectional" or (header.block, header.directions) == (1, 1))


def options_for(header: Header, options: DecodingOptions) -> Tuple[binding.Options, Any]:
    """The options for C, checked against the model, and what has to stay while they are used.

    Raises:
        UnsupportedOption, ValueError: by name.
    """
    require_native(options)
    _require_family(header, options)
    values: Dict[str, Any] = {
        option.kernel: _number(getattr(options, name), option) for name, option in SCHEMA.items() if option.kernel
    }
    table: List[Tuple[float, int]] = [(math.inf, 1)]
    values["nat_beam"], values["normalize"] = options.beam, options.normalize
    values["scale"] = options.dag_decode_upsample_scale or header.scale or 1.0
    values["alignments"] = options.alignments or options.print_alignment is not None
    if header.family == "hrt":
        table = chunk_table(options, header.chunk_sizes)
        values["nat_beam"] = check_hrt(options, table)
    if header.family == "dag":
        check_dag(options)
        # Vertices never write the unknown word unless they are allowed to.
        values["unkpen"] = options.unkpen if options.dag_allow_unk else math.inf
    limits = (C.c_double * len(table))(*(limit for limit, _ in table))
    chunks = (C.c_int32 * len(table))(*(size for _, size in table))
    found = binding.Options(**values, table_size=len(table))
    found.table_limits, found.table_chunks = C.cast(limits, C.POINTER(C.c_double)), C.cast(chunks, C.POINTER(C.c_int32))
    return found, (limits, chunks)


def check_dictionaries(options: DecodingOptions, source: Sequence[str], target: Sequence[str]) -> None:
    """Refuses to copy words of the source where their ids are other words of the target.

    Raises:
        ValueError: what to do.
    """
    if options.jacobi_draft == "source" and source != target:
        raise ValueError(
            "--jacobi-draft source copies words of the source: it needs one dictionary for both sides "
            "(fairseq-preprocess --joined-dictionary)"
        )


def _number(value: Any, option: Option) -> Any:
    """A value as its field in ``fh_options``: the number of a choice; what is left open is 0, and of what may be 0 it is -1."""
    if option.choices:
        named = option.native if isinstance(option.native, tuple) else option.choices
        # An option that may be left open counts its choices from 1.
        return 0 if value is None else named.index(value) + (option.task_default is not None)
    if value is None:
        return -1 if option.least == 0 else 0
    return value


def _require_family(header: Header, options: DecodingOptions) -> None:
    """Refuses options that belong to other models."""
    family, mode = header.family, options.jacobi_mode
    for name in ("hrt_decode_chunk", "hrt_draft_chunk"):
        if family != "hrt" and getattr(options, name) is not None:
            raise ValueError(f"{flag(name)}: this is not an hrt_transformer but a model of the family {family}")
    if options.alignments and not writes_in_order(header):
        raise ValueError(
            f"alignments: the words of a {family}_transformer are not aligned with the source; --unkpen inf forbids <unk>"
        )
    if options.print_alignment is not None and not writes_in_order(header):
        raise ValueError(f"--print-alignment: the words of a {family}_transformer are not aligned with the source")
    if options.graphs and family != "dag":
        raise ValueError(f"graphs: a model of the family {family} writes no graph; give a dag_transformer")
    if mode is None:
        for name in options.changed():
            if name.startswith("jacobi_"):
                raise ValueError(f"{flag(name)} {getattr(options, name)} needs a --jacobi-mode, such as frontier")
        return
    if family != "autoregressive":
        raise ValueError(f"--jacobi-mode {mode}: it decodes autoregressive models, and this one is of the family {family}")
    check_jacobi(options)
    if options.jacobi_draft == "source" and header.source_vocabulary != header.target_vocabulary:
        raise ValueError(
            "--jacobi-draft source copies words of the source: it needs one dictionary for both sides; this model has "
            f"{header.source_vocabulary} source and {header.target_vocabulary} target words"
        )


__all__ = ["UnsupportedOption", "check_dictionaries", "options_for", "writes_in_order"]
