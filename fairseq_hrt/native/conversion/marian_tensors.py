"""Reads Marian's model files, ``.npz`` and ``.bin`` (version 1), as float32 arrays and the text of
``special:model.yml``.

The layout of ``.bin`` (src/common/binary.cpp): uint64 version and count; per tensor four uint64
(length of the name with its NUL, type, dimensions, bytes); the names; int32 shapes; a uint64 and as
many bytes of padding; the data. An 8-bit tensor (``intgemm8``) is stored transposed, except
``Wemb``; behind it a float32 multiplier: value = integer / multiplier. Sizes are checked against
the file before memory is allocated for them.
"""

import math
import struct
import zipfile
from pathlib import Path
from typing import Dict, Iterator, List, NamedTuple, Optional, Tuple

import numpy as np

from ..io.escaping import shown
from .plain_files import decoded, read_bytes

# The largest published models have a few gigabytes.
LARGEST = 1 << 36
CONFIG = "special:model.yml"
VERSION = 1
# Types of src/common/types.h: a class (signed 0x100, unsigned 0x200, float 0x400, intgemm 0x4000)
# plus the bytes.
FLOATS: Dict[int, np.dtype] = {
    0x0402: np.dtype("<f2"),
    0x0404: np.dtype("<f4"),
    0x0408: np.dtype("<f8"),
}
INTEGERS: Dict[int, np.dtype] = {0x4101: np.dtype("i1"), 0x4102: np.dtype("<i2")}
BYTES = 0x0101
# Suffix of the multipliers of activations in integer products, which float32 weights do not need.
ALPHA = "_QuantMultA"
# Matrices have 2; with very many dimensions the product of the sizes would take too long.
MOST_DIMENSIONS = 4
# What is compressed, an npz or a lexical table, may unpack to this many times its size.
MOST_COMPRESSED = 100


class Stored(NamedTuple):
    """The contents of a model file.

    Attributes:
        arrays: {Marian's name: float32 array}.
        steps: {name: quantisation step, the value that the integer 1 represents}, for arrays that
            were stored as 8-bit integers.
        config: the text of ``special:model.yml``, "" if there is none.
    """

    arrays: Dict[str, np.ndarray]
    steps: Dict[str, float]
    config: str


def read_tensors(path: Path) -> Stored:
    """Reads a model file of Marian, ``.npz`` or ``.bin``.

    Raises:
        ValueError: the file is damaged, not a model of Marian, or has unsupported types.
    """
    if path.suffix == ".npz":
        return _read_npz(path)
    return _read_bin(path)


# ---------------------------------------------------------------------- .bin


class _Cursor:
    """Reads the parts of a file's ``content`` one after another, from the beginning. ``what`` names
    the part in the message of the ValueError for a file that is too short."""

    def __init__(self, content: bytes, path: Path) -> None:
        self.content, self.path, self.place = content, path, 0

    def take(self, count: int, what: str) -> memoryview:
        left = len(self.content) - self.place
        if count > left:
            raise ValueError(
                f"{self.path} is cut short or damaged: {what} would take {count} bytes, {left} are"
                " left; download or copy it again"
            )
        start, self.place = self.place, self.place + count
        return memoryview(self.content)[start : self.place]

    def numbers(self, kind: str, count: int, what: str) -> Tuple[int, ...]:
        return struct.unpack(f"<{count}{kind}", self.take(count * struct.calcsize(kind), what))


def _read_bin(path: Path) -> Stored:
    file = _Cursor(read_bytes(path, LARGEST), path)
    version, count = file.numbers("Q", 2, "the head")
    if version != VERSION:
        raise ValueError(
            f"{path} is not a model of Marian: it has version {version} instead of {VERSION}"
        )
    # A tensor's header takes 32 bytes: refuse counts that do not fit into the file.
    if count > len(file.content) // 32:
        raise ValueError(
            f"{path} is cut short or damaged: it announces {count} tensors, more than fit into"
            f" {len(file.content)} bytes; download or copy it again"
        )
    heads = [file.numbers("Q", 4, "the heads") for _ in range(count)]
    names: List[str] = []
    for length, *_ in heads:
        stored = bytes(file.take(length, "a name")).rstrip(b"\0")
        try:
            names.append(stored.decode("utf-8"))
        except UnicodeDecodeError:
            raise ValueError(
                f"{path} is damaged: a tensor has the name {shown(stored)}, which is not UTF-8;"
                " download or copy it again"
            ) from None
    shapes = [
        file.numbers("i", dimensions, f"the shape of {shown(name)}")
        for name, (_, _, dimensions, _) in zip(names, heads)
    ]
    (padding,) = file.numbers("Q", 1, "the padding")
    file.take(padding, "the padding")
    found: Dict[str, np.ndarray] = {}
    steps: Dict[str, float] = {}
    config = ""
    for name, shape, (_, kind, _, size) in zip(names, shapes, heads):
        data = file.take(size, shown(name))
        if name in found or (name == CONFIG and config):
            raise ValueError(
                f"{path} is damaged: it has the tensor {shown(name)} twice; download or copy it"
                " again"
            )
        if name == CONFIG:
            config = decoded(bytes(data).rstrip(b"\0"), path)
        elif not name.endswith(ALPHA):
            found[name], step = _values(name, shape, kind, data, path)
            if step is not None:
                steps[name] = step
    return Stored(found, steps, config)


def _values(
    name: str, shape: Tuple[int, ...], kind: int, data: memoryview, path: Path
) -> Tuple[np.ndarray, Optional[float]]:
    """Decodes ``data``, the bytes of the tensor ``name``, whose type ``kind`` must be a key of
    FLOATS or INTEGERS. Returns (float32 array, step): the step is the value that the integer 1
    represents if ``data`` are 8-bit integers, else None."""
    held = FLOATS.get(kind) or INTEGERS.get(kind)
    if held is None:
        raise ValueError(
            f"{path}: {shown(name)} has the type {kind:#x}; only float32, float16 and intgemm8 can"
            " be read, not their variants for one kind of processor: convert the model to intgemm8"
            " with marian-conv, or give the float32 model"
        )
    if len(shape) > MOST_DIMENSIONS:
        raise ValueError(
            f"{path}: {shown(name)} has {len(shape)} dimensions, a Transformer's tensors have at"
            f" most {MOST_DIMENSIONS}: the file is damaged, or holds another model"
        )
    number = math.prod(shape)
    needed = number * held.itemsize + (4 if kind in INTEGERS else 0)
    if min(shape, default=0) < 1 or needed > len(data):
        raise ValueError(
            f"{path} is damaged: {shown(name)} has the shape {shown(shape)}, which takes {needed}"
            f" bytes, but holds {len(data)}; download or copy it again"
        )
    values = np.frombuffer(data, held, number)
    if kind in FLOATS:
        return _finite(values.astype(np.float32).reshape(shape), name, path), None
    (multiplier,) = struct.unpack_from("<f", data, number * held.itemsize)
    if not math.isfinite(multiplier) or multiplier <= 0:
        raise ValueError(
            f"{path} is damaged: {shown(name)} has the multiplier {multiplier}, which must be a"
            " positive number; download or copy it again"
        )
    with np.errstate(over="ignore"):
        # _finite() below refuses overflows.
        real = values.astype(np.float32) / np.float32(multiplier)
    # Embeddings are stored as they are, other matrices transposed.
    stored = real.reshape(shape) if "Wemb" in name else real.reshape(shape[::-1]).T
    step = 1 / multiplier if held.itemsize == 1 else None
    return _finite(np.ascontiguousarray(stored), name, path), step


def _finite(values: np.ndarray, name: str, path: Path) -> np.ndarray:
    if not np.isfinite(values).all():
        raise ValueError(
            f"{path}: {shown(name)} holds numbers that are not finite (NaN or infinity): the file"
            " is damaged, or the training diverged; give other weights"
        )
    return values


# ---------------------------------------------------------------------- .npz


def _read_npz(path: Path) -> Stored:
    found: Dict[str, np.ndarray] = {}
    config = ""
    try:
        with zipfile.ZipFile(path) as archive:
            for name, values in _members(archive, path):
                if name in found or (name == CONFIG and config):
                    raise ValueError(
                        f"{path} is damaged: it has the tensor {shown(name)} twice; download or"
                        " copy it again"
                    )
                if name == CONFIG:
                    config = decoded(values.tobytes().rstrip(b"\0"), path)
                elif name.endswith(ALPHA):
                    continue
                elif values.dtype.kind == "f":
                    found[name] = _finite(values.astype(np.float32), name, path)
                elif not name.startswith("special:"):
                    raise ValueError(
                        f"{path}: {shown(name)} has the type {values.dtype}, which is not"
                        " floating-point: give the float32 model"
                    )
    except Exception as error:
        # Errors of zipfile, its four decompressors, or Python's parser, which NumPy uses for
        # headers.
        if str(error).startswith(str(path)):
            raise
        raise ValueError(
            f"{path} is not an npz file, or damaged: {' '.join(str(error).split())[:200]};"
            " download or copy it again"
        ) from None
    return Stored(found, {}, config)


def _members(archive: zipfile.ZipFile, path: Path) -> Iterator[Tuple[str, np.ndarray]]:
    """Yields (name, array) for each member of an npz file; an array is read only if the archive
    declares enough bytes for it."""
    held = path.stat().st_size
    if sum(member.file_size for member in archive.infolist()) > min(
        held * MOST_COMPRESSED, LARGEST
    ):
        raise ValueError(
            f"{path} would unpack to more than {MOST_COMPRESSED} times its size, as no model does:"
            " download it again, or save it again with numpy.savez"
        )
    for member in archive.infolist():
        with archive.open(member) as file:
            version = np.lib.format.read_magic(file)
            if version not in ((1, 0), (2, 0)):
                raise ValueError(
                    f"{path}: {shown(member.filename)} has version {version[0]}.{version[1]} of"
                    " NumPy's file format; only versions 1.0 and 2.0 can be read: save the model"
                    " again with numpy.savez"
                )
            header = (
                np.lib.format.read_array_header_1_0
                if version == (1, 0)
                else np.lib.format.read_array_header_2_0
            )
            shape, by_columns, kind = header(file)
            name = member.filename.removesuffix(".npy")
            if (
                kind.hasobject
                or kind.kind not in "fiu"
                or len(shape) > MOST_DIMENSIONS
                or min(shape, default=1) < 0
            ):
                raise ValueError(
                    f"{path}: {shown(name)} has the type {shown(str(kind))} and shape"
                    f" {shown(shape)}; only arrays of numbers with at most {MOST_DIMENSIONS}"
                    " dimensions can be read"
                )
            number = math.prod(shape)
            if number * kind.itemsize > member.file_size:
                raise ValueError(
                    f"{path} is damaged: {shown(name)} has the shape {shown(shape)}, but only"
                    f" {member.file_size} bytes; download or copy it again"
                )
            content = file.read(number * kind.itemsize)
            if len(content) < number * kind.itemsize:
                raise ValueError(
                    f"{path} is cut short or damaged: {shown(name)} has {len(content)} bytes of"
                    f" {number * kind.itemsize}; download or copy it again"
                )
            values = np.frombuffer(content, kind, number)
            yield name, values.reshape(shape[::-1]).T if by_columns else values.reshape(shape)
