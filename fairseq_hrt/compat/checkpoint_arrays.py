"""Rebuilds NumPy's arrays and scalars in a checkpoint safely.

Unpickling NumPy's types trusts the file: a forged dtype can have fields, sizes and flags that
nobody checks, so that reading its array is a segmentation fault; it can even change the dtypes of
the whole process. Therefore, while a file is unpickled, the names of NumPy's types lead to the
stand-ins below, plain objects that store the file's description of an array. Afterwards
:func:`with_arrays` replaces them by real arrays if the description is exactly what NumPy writes for
booleans, integers, floating-point numbers and strings, and refuses any other.
"""

import math
import re
from typing import Any, Callable, Dict, List, Tuple

import numpy

from .display import PLAIN, shown

# How NumPy pickles a type: kind and bytes of a number, or number of characters of a string.
_TYPE = re.compile(r"b1|[iu][1248]|f[248]|U\d{1,6}")
# The largest character of Unicode; NumPy's texts hold characters of four bytes each.
_LAST_CHARACTER = 0x10FFFF


class ForgedArrayError(ValueError):
    """The file describes an array or a type in a way that NumPy never writes for plain numbers or
    strings. The message is a noun phrase for this array or type; :func:`.checkpoint_loading.load`
    puts ``FILE holds`` before it and adds what to do."""


class PickledDtype:
    """Stands in for ``numpy.dtype`` while a file is unpickled.

    Args:
        text: the type as NumPy pickles it, e.g. ``f4``; ForgedArrayError unless it is a boolean,
            integer, floating-point number or string.

    Attributes:
        dtype: the real type.
    """

    def __init__(self, text: object, *_: object) -> None:
        if not isinstance(text, str) or not _TYPE.fullmatch(text):
            raise ForgedArrayError(
                f"the NumPy type {shown(text)}, which is not one of plain numbers or strings"
            )
        self.dtype = numpy.dtype(text)

    def __setstate__(self, state: object) -> None:
        """Takes over the byte order from the pickled state of a type. Size and alignment must be
        those of the plain type, and neither fields nor anything else may be set.

        Raises:
            ForgedArrayError: the state does not have this form.
        """
        own, kinds = self.dtype, (int, str, type(None))
        if type(state) is tuple and len(state) == 8 and all(type(part) in kinds for part in state):
            version, order, *parts, size, alignment, flags = state
            plain = (version, parts) == (3, [None] * 3) and flags in (0, own.flags)
            if (
                plain
                and order in ("<", "=", "|")
                and size in (-1, own.itemsize)
                and alignment in (-1, own.alignment)
            ):
                self.dtype = own.newbyteorder(order)
                return
        raise ForgedArrayError(
            f"the NumPy type {own} with a size, fields or flags that NumPy does not write:"
            f" {shown(state)}"
        )


class PickledArray:
    """Stands in for an array while a file is unpickled, and for the class ``numpy.ndarray`` where
    the file names it."""

    # Unhashable, as arrays are.
    __hash__ = None  # type: ignore[assignment]

    def __setstate__(self, state: object) -> None:
        """Stores the pickled state of an array for :meth:`built`, unchecked: if NumPy wrote it, the
        tuple (version, shape, type, whether in Fortran order, bytes)."""
        self.state = state

    def built(self) -> "numpy.ndarray[Any, Any]":
        """Builds the array that the stored state describes.

        Raises:
            ForgedArrayError: there is no stored state, or NumPy would not write it.
        """
        state = getattr(self, "state", None)
        if type(state) is not tuple or len(state) != 5:
            raise ForgedArrayError(
                f"a NumPy array with the state {shown(state)}, which NumPy does not write"
            )
        version, shape, kind, by_columns, data = state
        if (
            version != 1
            or type(by_columns) is not bool
            or type(shape) is not tuple
            or type(kind) is not PickledDtype
        ):
            raise ForgedArrayError(
                f"a NumPy array with the state {shown(state)}, which NumPy does not write"
            )
        if not all(type(size) is int and size >= 0 for size in shape):
            raise ForgedArrayError(
                f"a NumPy array of the shape {shown(shape)}, which NumPy does not write"
            )
        flat = _numbers(kind, data, math.prod(shape), f"a NumPy array of the shape {shown(shape)}")
        try:
            return flat.reshape(shape, order="F" if by_columns else "C").copy(order="K")
        except ValueError:
            # A size of 0 beside sizes or dimensions beyond NumPy's limits.
            raise ForgedArrayError(
                f"a NumPy array of the shape {shown(shape)}, which NumPy does not write"
            ) from None


def reconstruct(kind: object, shape: object, code: object) -> PickledArray:
    """Stands in for NumPy's ``_reconstruct``, which makes the empty array that a pickled state then
    fills. Arguments other than those that NumPy always writes (the class, the shape (0,), ``b"b"``)
    raise ForgedArrayError."""
    if kind is not PickledArray or shape != (0,) or code not in (b"b", "b"):
        raise ForgedArrayError(
            f"a NumPy array that begins as {shown((kind, shape, code))}, which NumPy does not write"
        )
    return PickledArray()


def scalar(kind: object, data: object) -> object:
    """Stands in for NumPy's ``scalar``: returns the NumPy scalar of the type ``kind`` from its
    bytes ``data``; ForgedArrayError if ``data`` do not fit the type."""
    if type(kind) is not PickledDtype:
        raise ForgedArrayError(
            f"a NumPy scalar of the type {shown(kind)}, which NumPy does not write"
        )
    return _numbers(kind, data, 1, "a NumPy scalar")[0]


def _numbers(kind: PickledDtype, data: object, count: int, what: str) -> "numpy.ndarray[Any, Any]":
    """An array ``[count]`` of the type ``kind`` from the bytes ``data``.

    Args:
        what: a phrase for the array in error messages.

    Raises:
        ForgedArrayError: ``data`` are not exactly the bytes of ``count`` values, or contain
            characters that Unicode does not have.
    """
    dtype = kind.dtype
    if type(data) is not bytes or len(data) != count * dtype.itemsize:
        held = f"{len(data)} bytes" if isinstance(data, bytes) else shown(data)
        raise ForgedArrayError(
            f"{what} and the type {dtype} with {held} instead of {count * dtype.itemsize} bytes"
        )
    characters = numpy.frombuffer(data, "<u4") if dtype.kind == "U" else numpy.zeros(0, "<u4")
    if characters.max(initial=0) > _LAST_CHARACTER:
        raise ForgedArrayError(
            f"{what} and the type {dtype} with the character {characters.max():#x}, which Unicode"
            " does not have"
        )
    return numpy.ndarray((count,), dtype, data)


def stand_ins() -> List[Tuple[Callable[..., Any], str]]:
    """The stand-ins for NumPy's types and functions, as pairs (stand-in, name in a pickle of what
    it replaces), in the form that ``torch.serialization.safe_globals`` takes."""
    found: List[Tuple[Callable[..., Any], str]] = [
        (PickledDtype, "numpy.dtype"),
        (PickledArray, "numpy.ndarray"),
    ]
    # NumPy 2 renamed the package; a file may come from an older or a newer version.
    for package in ("numpy.core", "numpy._core"):
        found += [
            (scalar, f"{package}.multiarray.scalar"),
            (reconstruct, f"{package}.multiarray._reconstruct"),
        ]
    return found


def with_arrays(state: object) -> object:
    """Returns ``state``, the unpickled content of a file, with the stand-ins at all depths replaced
    by NumPy's arrays and types. Lists, dictionaries and objects are changed in place; tuples are
    copied.

    Raises:
        ForgedArrayError: a stand-in holds a description that NumPy does not write.
    """
    return _Replacing().replaced(state)


class _Replacing:
    def __init__(self) -> None:
        self.known: Dict[int, object] = {}

    def replaced(self, value: object) -> object:
        if isinstance(value, (str, bytes, type, *PLAIN)):
            return value
        if id(value) not in self.known:
            # Set before its parts are visited: it may contain itself.
            self.known[id(value)] = value
            self.known[id(value)] = self._of(value)
        return self.known[id(value)]

    def _of(self, value: object) -> object:
        if type(value) is PickledArray:
            return value.built()
        if type(value) is PickledDtype:
            return value.dtype
        if type(value) is tuple:
            parts = tuple(map(self.replaced, value))
            return value if all(new is old for new, old in zip(parts, value)) else parts
        if isinstance(value, list):
            for place, part in enumerate(value):
                value[place] = self.replaced(part)
        if isinstance(value, dict):
            self._replace_values(value)
        attributes = getattr(value, "__dict__", None)
        if type(attributes) is dict:
            self._replace_values(attributes)
        return value

    def _replace_values(self, held: Dict[object, object]) -> None:
        for name, part in list(dict.items(held)):
            new = self.replaced(part)
            if new is not part:
                dict.__setitem__(held, name, new)
