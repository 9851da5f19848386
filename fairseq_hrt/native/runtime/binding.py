"""Declares the C interface of the kernel (kernel/runtime.h) for ctypes. The structures have the
same fields in the same order."""

import ctypes as C
from functools import cache
from typing import Any, Dict, List, Mapping, Tuple

import numpy as np

from ..families import MODEL_FAMILIES
from ..families.ctc import INPUTS
from ..families.fields import ACTIVATIONS, CELLS
from ..options.values import KINDS, SCHEMA
from .header import Header
from .library import load_library

INTERFACE = 13
OK, MEMORY, INVALID, NUMBER, REFUSED, ENDED = range(6)
# gelu_fast and gelu_accurate are two names of one formula.
_ACTIVATION = dict(zip(ACTIVATIONS, (0, 1, 2, 2, 3, 4)))
_MESSAGE = 512
_INTS, _LONGS = C.POINTER(C.c_int32), C.POINTER(C.c_int64)

# The kernel's callback fh_ask_caller: gets a pointer to which it writes 1 to continue, 0 to end.
Ask = C.CFUNCTYPE(None, C.POINTER(C.c_int32))


class SideShape(C.Structure):
    """The kernel's ``fh_side_shape``: the sizes of the encoder or the decoder."""

    _fields_ = [
        *(
            (name, C.c_int32)
            for name in (
                "vocabulary width layers heads inner positions pre_norm final_norm embedding_norm"
                " longest"
            ).split()
        ),
        ("scale", C.c_double),
    ]


class Shape(C.Structure):
    """The kernel's ``fh_shape``: the hyper-parameters of a model."""

    _fields_ = [
        *((name, C.c_int32) for name in (
            "family activation bos pad eos unk shared_embedding tied_output output_bias "
            "special_symbols chunk_count relative_window learn_tail directions block causal "
            "independent middle_to_side link_heads link_rows reach count_bos length_classes "
            "absolute_lengths besides cell zero_start input_bits position_inputs"
        ).split()),
        ("chunk_sizes", _INTS),
        ("epsilon", C.c_double),
        ("scale", C.c_double),
        ("upsample", C.c_double),
        ("copy_temperature", C.c_double),
        ("encoder", SideShape),
        ("decoder", SideShape),
    ]  # fmt: skip


class Tensor(C.Structure):
    """The kernel's ``fh_tensor``: a named matrix or vector of a model."""

    _fields_ = [
        ("name", C.c_char_p),
        ("data", C.c_void_p),
        ("rows", C.c_int64),
        ("columns", C.c_int64),
        ("type", C.c_int32),
    ]


def _fields(kind: type) -> List[str]:
    """The names of those fields of ``fh_options`` that have the type ``kind``, ``int`` or
    ``float``, in the order of the schema; switches and choices are integers."""
    found = {
        option.kernel: float if KINDS[name][0] is float else int
        for name, option in SCHEMA.items()
        if option.kernel
    }
    return [name for name, own in found.items() if own is kind]


class Options(C.Structure):
    """The kernel's ``fh_options``: the decoding options that :mod:`..options.schema` declares for
    the kernel, and values derived from them."""

    _fields_ = [
        *((name, C.c_int32) for name in (*_fields(int), "normalize", "table_size")),
        ("table_limits", C.POINTER(C.c_double)),
        ("table_chunks", _INTS),
        *((name, C.c_double) for name in _fields(float)),
    ]


class FirstWords(C.Structure):
    """The kernel's ``fh_first_words``: the words that translations must begin with."""

    _fields_ = [
        ("tokens", _INTS),
        ("offsets", _LONGS),
        ("scored", C.c_int32),
    ]


class Targets(C.Structure):
    """The kernel's ``fh_targets``: given translations to score."""

    _fields_ = [
        ("tokens", _INTS),
        ("counts", _INTS),
        ("offsets", _LONGS),
    ]


class Results(C.Structure):
    """The kernel's ``fh_results``: the hypotheses of all sentences."""

    _fields_ = [
        ("sentences", C.c_int32),
        ("hypotheses", C.c_int32),
        ("counts", _INTS),
        ("starts", _LONGS),
        ("lengths", _INTS),
        ("steps", _INTS),
        ("scores", C.POINTER(C.c_double)),
        ("tokens", _INTS),
        ("token_steps", _INTS),
        ("positional", C.POINTER(C.c_float)),
        ("places", _INTS),
        ("graph_sizes", _INTS),
        ("vertex_starts", _LONGS),
        ("link_starts", _LONGS),
        ("vertex_tokens", _INTS),
        ("vertex_scores", C.POINTER(C.c_float)),
        ("links", C.POINTER(C.c_float)),
    ]


@cache
def kernel() -> C.CDLL:
    """Loads the kernel's shared library, once per process, and declares the signatures of its C
    functions.

    Raises:
        ValueError: the library is missing, cannot be loaded, or belongs to another release; the
            message names the fix.
    """
    library = load_library()
    message = [C.c_char_p, C.c_size_t]
    model = C.POINTER(C.c_void_p)
    sources = [C.c_void_p, _INTS, _LONGS, C.c_int32]
    results = [C.POINTER(Options), Ask, C.POINTER(C.POINTER(Results)), *message]
    functions = {
        "fh_interface": (C.c_int32, []),
        "fh_model_new": (
            C.c_int,
            [model, C.POINTER(Shape), C.POINTER(Tensor), C.c_int64, C.c_char_p, *message],
        ),
        "fh_model_free": (None, [C.c_void_p]),
        "fh_model_isa": (C.c_char_p, [C.c_void_p]),
        "fh_model_bytes": (C.c_int64, [C.c_void_p]),
        "fh_engine_new": (C.c_int, [model, C.c_void_p, C.c_int32, *message]),
        "fh_engine_free": (None, [C.c_void_p]),
        "fh_engine_shortlist": (
            C.c_int,
            [C.c_void_p, _LONGS, _INTS, C.c_int64, _INTS, C.c_int64, *message],
        ),
        "fh_decode": (C.c_int, [*sources, C.POINTER(FirstWords), *results]),
        "fh_score": (C.c_int, [*sources, C.POINTER(Targets), *results]),
        "fh_results_free": (None, [C.POINTER(Results)]),
    }
    for name, (result, arguments) in functions.items():
        try:
            function = getattr(library, name)
        except AttributeError:
            raise ValueError(
                f"the native engine's C library has no function {name}: it belongs to another"
                " release; install fairseq_hrt again"
            ) from None
        function.restype, function.argtypes = result, arguments
    if library.fh_interface() != INTERFACE:
        raise ValueError(
            "the native engine's C library belongs to another release; install fairseq_hrt again"
        )
    return library


def message_buffer() -> Any:
    """Makes a buffer into which a function of the kernel writes its error message."""
    return C.create_string_buffer(_MESSAGE)


def pointer(array: np.ndarray, kind: Any) -> Any:
    """A pointer to an array's data, with elements of the C type ``kind``. The array must live as
    long as the pointer is used."""
    return array.ctypes.data_as(C.POINTER(kind))


def shape_of(header: Header) -> Tuple[Shape, Any]:
    """Converts a header to ``fh_shape``. Also returns the array of chunk sizes, to which this
    structure points and which must live as long as the structure is used."""
    shape = Shape()
    values: Dict[str, Any] = {
        name: getattr(header, name) for name, *_ in Shape._fields_ if hasattr(header, name)
    }
    values["family"], values["activation"] = (
        MODEL_FAMILIES.index(header.family),
        _ACTIVATION[header.activation],
    )
    values["cell"] = CELLS.index(header.cell)
    values["position_inputs"] = INPUTS.index(header.position_inputs)
    values["chunk_count"] = len(header.chunk_sizes)
    chunks = (C.c_int32 * max(len(header.chunk_sizes), 1))(*header.chunk_sizes)
    values["chunk_sizes"] = C.cast(chunks, C.POINTER(C.c_int32))
    for name, value in values.items():
        setattr(shape, name, value)
    for side, part in (("encoder", shape.encoder), ("decoder", shape.decoder)):
        for name, *_ in SideShape._fields_[1:]:
            if name != "longest":
                setattr(part, name, getattr(header, f"{side}_{name}"))
    shape.encoder.vocabulary, shape.decoder.vocabulary = (
        header.source_vocabulary,
        header.target_vocabulary,
    )
    shape.encoder.longest, shape.decoder.longest = header.longest_source, header.longest_target
    return shape, chunks


def tensor_table(tensors: Mapping[str, np.ndarray]) -> Tuple[Any, List[np.ndarray]]:
    """Converts tensors, {name: array}, to an array of ``fh_tensor``. Also returns the arrays that
    it points to, which must live as long as it is used."""
    table = (Tensor * max(len(tensors), 1))()
    kept = []
    for entry, (name, array) in zip(table, tensors.items()):
        array = np.ascontiguousarray(array)
        kept.append(array)
        entry.name, entry.data = name.encode(), array.ctypes.data
        entry.rows, entry.columns = (1, array.shape[0]) if array.ndim == 1 else array.shape
        entry.type = {np.dtype(np.int8): 1, np.dtype(np.float32): 2}[array.dtype]
    return table, kept
