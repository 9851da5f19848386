"""Reads the tensors of PyTorch's files, such as ``pytorch_model.bin``, without PyTorch.

Such a file holds a pickle, a program that may call any function. It is not run here: of its
operations and names those are interpreted that ``torch.save(model.state_dict())`` writes, all
others are refused. Both of PyTorch's formats are read, the zip archive and, from before PyTorch
1.6, pickles followed by the numbers.
"""

import io
import math
import pickletools
import struct
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Callable, Dict, Iterator, List, Tuple

import numpy as np

from ..io.escaping import shown

# A tensor's name, its numbers as float32, and the bytes that it takes in the file.
Stored = Tuple[str, np.ndarray, int]

# Types of numbers by PyTorch's names of storages. bfloat16, which NumPy lacks, is the upper half of
# float32.
_FLOATS = {
    "torch.FloatStorage": "<f4", "torch.DoubleStorage": "<f8", "torch.HalfStorage": "<f2",
    "torch.BFloat16Storage": "<u2",
}  # fmt: skip
# Most bytes of a pickle, each of which may cost hundreds in memory. Pickles of the largest models
# have some hundred thousand.
_LONGEST = 1 << 22
# Most dimensions of a tensor.
_DIMENSIONS = 8
# The number with which the older format begins.
_MAGIC = 0x1950A86A20F9469CFC6C
_BIG_ENDIAN = "its numbers are big-endian: save the model again on a little-endian machine"
_ADVICE = "save the model's state_dict() in this file, or the model as model.safetensors"


@dataclass(frozen=True)
class _Name:
    """A class or function that a pickle names, with its module; it is never imported."""

    text: str


@dataclass(frozen=True)
class _Storage:
    """A sequence of numbers in the file.

    Attributes:
        kind: PyTorch's name of their type, e.g. ``torch.FloatStorage``.
        key: the storage's name in the file, a string of digits.
        length: how many numbers it has.
    """

    kind: str
    key: str
    length: int


@dataclass(frozen=True)
class _Tensor:
    """A view of a storage: the index of its first number there, and for each dimension the size and
    the stride, both counted in numbers."""

    storage: _Storage
    offset: int
    shape: Tuple[int, ...]
    strides: Tuple[int, ...]


class _Refused(ValueError):
    """The file may be intact, but cannot be read as {name: plain floating-point tensor}."""


def read_pytorch(path: Path) -> Iterator[Stored]:
    """Yields (name, float32 array, number of bytes in the file) for each tensor of a file that
    ``torch.save`` has written of a ``state_dict()``.

    Raises:
        ValueError: the file is damaged or holds anything else; the message names it.
    """
    try:
        with open(path, "rb") as file:
            if zipfile.is_zipfile(file):
                state, numbers = _archive(zipfile.ZipFile(file), path.stat().st_size)
            else:
                state, numbers = _pickles(file, path)
            tensors = _named(state)
            held: Dict[str, np.ndarray] = {}
            for name, tensor in tensors.items():
                key = tensor.storage.key
                if key not in held:
                    held[key] = numbers(tensor.storage)
                yield name, *_array(name, tensor, held[key])
    except _Refused as error:
        raise ValueError(f"{path}: {error}") from None
    except (
        ArithmeticError, AttributeError, EOFError, LookupError, MemoryError, OSError, RuntimeError,
        TypeError, ValueError, struct.error, zipfile.BadZipFile, zlib.error,
    ) as error:  # fmt: skip
        raise ValueError(
            f"{path} is not a file of PyTorch, or damaged: {' '.join(str(error).split())[:200]};"
            " download or copy it again"
        ) from None


def _archive(archive: zipfile.ZipFile, size: int) -> Tuple[Any, Callable[[_Storage], np.ndarray]]:
    """Returns what the pickle in a zip archive of ``size`` bytes describes, and a function that
    reads the numbers of a storage."""
    (pickled,) = [name for name in archive.namelist() if name.endswith("/data.pkl")]
    folder = pickled.removesuffix("data.pkl")
    left = size

    def content(name: str, most: int) -> bytes:
        nonlocal left
        entry = archive.getinfo(name)
        left -= entry.file_size
        # torch.save does not compress: together the entries have no more bytes than the file.
        if left < 0 or entry.file_size > most:
            raise ValueError(f"{name} has {entry.file_size} bytes, more than is possible")
        return archive.read(entry)

    def numbers(storage: _Storage) -> np.ndarray:
        data = content(f"{folder}data/{storage.key}", size)
        return np.frombuffer(data, _FLOATS[storage.kind], storage.length)

    order = f"{folder}byteorder"
    if order in archive.namelist() and content(order, 8) != b"little":
        raise _Refused(_BIG_ENDIAN)
    return _interpreted(io.BytesIO(content(pickled, _LONGEST))), numbers


def _pickles(file: BinaryIO, path: Path) -> Tuple[Any, Callable[[_Storage], np.ndarray]]:
    """Returns what :func:`_archive` returns, for the older format: five pickles (a constant, the
    version, the machine, the tensors, the storages' names), then each storage's length and numbers.
    ``file`` is the file at ``path``, open for reading."""
    file.seek(0)
    head = io.BytesIO(file.read(_LONGEST))
    if _interpreted(head) != _MAGIC:
        raise ValueError("it begins with another pickle than those of torch.save")
    _interpreted(head)
    machine, state, keys = (_interpreted(head) for _ in range(3))
    if machine["little_endian"] is not True:
        raise _Refused(_BIG_ENDIAN)
    storages = {one.storage.key: one.storage for one in _named(state).values()}
    content, place, places = np.memmap(path, np.uint8, "r"), head.tell(), {}
    for key in keys:
        length = int.from_bytes(content[place : place + 8].tobytes(), "little", signed=True)
        # A storage that belongs to no tensor has an unknown type.
        if key not in storages or length != storages[key].length:
            raise ValueError(f"storage {shown(key)} of {length} numbers fits no tensor of the file")
        places[key] = place + 8
        place += 8 + length * np.dtype(_FLOATS[storages[key].kind]).itemsize

    def numbers(storage: _Storage) -> np.ndarray:
        return np.frombuffer(content, _FLOATS[storage.kind], storage.length, places[storage.key])

    return state, numbers


def _named(state: Any) -> Dict[str, _Tensor]:
    """Returns ``state``, what a pickle describes, if that is {name: plain tensor of floating-point
    numbers}; else raises _Refused."""
    if not isinstance(state, dict) or not all(isinstance(name, str) for name in state):
        raise _Refused(f"it holds a {type(state).__name__}, not tensors by their names: {_ADVICE}")
    for name, value in state.items():
        if not isinstance(value, _Tensor):
            raise _Refused(f"{shown(name)} is not a plain tensor: {_ADVICE}")
        if value.storage.kind not in _FLOATS:
            raise _Refused(
                f"{shown(name)} is a {shown(value.storage.kind)}, which is not floating-point: save"
                " the model with floating-point weights only"
            )
    return state


def _array(name: str, tensor: _Tensor, numbers: np.ndarray) -> Tuple[np.ndarray, int]:
    """Returns (the float32 array of a tensor, the bytes that it takes in the file). ``numbers``
    are those of its storage; _Refused if the tensor reaches beyond them."""
    shape, strides, first = tensor.shape, tensor.strides, tensor.offset
    size = math.prod(shape)
    last = first + sum((length - 1) * stride for length, stride in zip(shape, strides))
    # A view that repeats the same bytes could claim a huge tensor.
    if size > len(numbers) or (size and last >= len(numbers)):
        raise _Refused(
            f"{shown(name)} has the shape {shown(shape)}, but the file holds fewer numbers: apply"
            " .contiguous() to this tensor and save the model again"
        )
    step = numbers.itemsize
    found = np.lib.stride_tricks.as_strided(
        numbers[first:] if size else numbers[:0],
        shape,
        [step * stride for stride in strides],
        writeable=False,
    )
    if tensor.storage.kind == "torch.BFloat16Storage":
        found = (found.astype(np.uint32) << 16).view(np.float32)
    return found.astype(np.float32), size * step


class _Interpreter:
    """Interprets a pickle, operation by operation, on a stack."""

    def __init__(self) -> None:
        self.stack: List[Any] = []
        self.marks: List[int] = []
        self.memo: Dict[Any, Any] = {}

    def popped(self, count: int) -> List[Any]:
        """Takes the last ``count`` values off the stack; ValueError if there are fewer since the
        last mark."""
        place = len(self.stack) - count
        if place < (self.marks[-1] if self.marks else 0):
            raise ValueError("its pickle takes more values than it has made")
        return self._from(place)

    def since_mark(self) -> List[Any]:
        """Takes the values since the last mark off the stack."""
        return self._from(self.marks.pop())

    def _from(self, place: int) -> List[Any]:
        taken = self.stack[place:]
        del self.stack[place:]
        return taken

    def top(self, kind: type) -> Any:
        """The value on top of the stack; ValueError unless it has the type ``kind``."""
        if not self.stack or not isinstance(self.stack[-1], kind):
            raise ValueError(f"its pickle has no {kind.__name__} where it needs one")
        return self.stack[-1]

    def extend(self, items: List[Any]) -> None:
        """Appends ``items`` to the list on top of the stack."""
        self.top(list).extend(items)

    def set_items(self, items: List[Any]) -> None:
        """Puts keys and values, by turns in ``items``, into the dictionary on top of the stack."""
        self.top(dict).update(zip(items[::2], items[1::2], strict=True))

    def forget_attributes(self) -> None:
        """Drops the attributes that a pickle gives to a dictionary: those of a ``state_dict()`` are
        the versions of its modules."""
        self.popped(1)
        self.top(dict)


# {name of a pickle's operation: its effect on the interpreter}; ``value`` is the argument that the
# pickle gives with the operation, or None.
_OPERATIONS: Dict[str, Callable[[_Interpreter, Any], object]] = {
    "PROTO": lambda own, value: None,
    "FRAME": lambda own, value: None,
    "NONE": lambda own, value: own.stack.append(None),
    "NEWTRUE": lambda own, value: own.stack.append(True),
    "NEWFALSE": lambda own, value: own.stack.append(False),
    "EMPTY_TUPLE": lambda own, value: own.stack.append(()),
    "EMPTY_LIST": lambda own, value: own.stack.append([]),
    "EMPTY_DICT": lambda own, value: own.stack.append({}),
    "GLOBAL": lambda own, value: own.stack.append(_Name(value.replace(" ", ".", 1))),
    "STACK_GLOBAL": lambda own, value: own.stack.append(_Name(".".join(own.popped(2)))),
    "MARK": lambda own, value: own.marks.append(len(own.stack)),
    "TUPLE": lambda own, value: own.stack.append(tuple(own.since_mark())),
    "TUPLE1": lambda own, value: own.stack.append(tuple(own.popped(1))),
    "TUPLE2": lambda own, value: own.stack.append(tuple(own.popped(2))),
    "TUPLE3": lambda own, value: own.stack.append(tuple(own.popped(3))),
    "BINPUT": lambda own, value: own.memo.update({value: own.stack[-1]}),
    "LONG_BINPUT": lambda own, value: own.memo.update({value: own.stack[-1]}),
    "MEMOIZE": lambda own, value: own.memo.update({len(own.memo): own.stack[-1]}),
    "BINGET": lambda own, value: own.stack.append(own.memo[value]),
    "LONG_BINGET": lambda own, value: own.stack.append(own.memo[value]),
    "APPEND": lambda own, value: own.extend(own.popped(1)),
    "APPENDS": lambda own, value: own.extend(own.since_mark()),
    "SETITEM": lambda own, value: own.set_items(own.popped(2)),
    "SETITEMS": lambda own, value: own.set_items(own.since_mark()),
    "BUILD": lambda own, value: own.forget_attributes(),
    "BINPERSID": lambda own, value: own.stack.append(_storage(*own.popped(1))),
    "REDUCE": lambda own, value: own.stack.append(_called(*own.popped(2))),
    **dict.fromkeys(
        "BINFLOAT BININT BININT1 BININT2 BINUNICODE LONG1 SHORT_BINUNICODE".split(),
        lambda own, value: own.stack.append(value),
    ),
}


def _interpreted(file: io.BytesIO) -> Any:
    """Returns what the next pickle in ``file`` describes: dictionaries, lists, tuples, texts,
    numbers, tensors and names. Leaves ``file`` at the pickle's end."""
    interpreter = _Interpreter()
    # genops() raises ValueError where a pickle has no STOP.
    for operation, value, _ in pickletools.genops(file):
        if operation.name == "STOP":
            (result,) = interpreter.popped(1)
            return result
        if operation.name not in _OPERATIONS:
            raise _Refused(
                f"its pickle has the operation {operation.name}, which plain tensors do not need:"
                f" {_ADVICE}"
            )
        _OPERATIONS[operation.name](interpreter, value)


def _storage(described: Any) -> _Storage:
    """Checks a persistent id of a pickle and returns the storage that it describes: ("storage",
    type, key, device, length), in the older format followed by None. Raises _Refused for a view of
    another storage, which has a tuple in place of None, and for a class of modules, which the older
    format describes by ("module", class, file, text)."""
    if described[0] == "module":
        raise _Refused(f"it holds a whole model, not tensors by their names: {_ADVICE}")
    word, kind, key, _, length, *view = described
    if word != "storage" or view not in ([], [None]):
        raise _Refused(f"a tensor's storage is a part of another tensor's storage: {_ADVICE}")
    if not isinstance(kind, _Name) or not (isinstance(key, str) and key.isdecimal()):
        raise ValueError(f"a storage has the name {shown(key)} instead of digits, or no type")
    return _Storage(kind.text, key, _count(length))


def _called(function: Any, arguments: Any) -> Any:
    """What ``function``, a name in a pickle, would make of ``arguments``. It is not called; only
    the three functions that ``torch.save`` names for tensors are known, others raise _Refused."""
    name = function.text if isinstance(function, _Name) else type(function).__name__
    if name == "collections.OrderedDict" and arguments == ():
        return {}
    if name == "torch._utils._rebuild_parameter":
        return arguments[0]
    if name == "torch._utils._rebuild_tensor_v2":
        storage, offset, shape, strides = arguments[:4]
        if not isinstance(storage, _Storage) or not len(shape) == len(strides) <= _DIMENSIONS:
            raise ValueError(
                f"a tensor has no storage, more than {_DIMENSIONS} dimensions, or not a stride for"
                " each"
            )
        return _Tensor(
            storage, _count(offset), tuple(map(_count, shape)), tuple(map(_count, strides))
        )
    raise _Refused(f"it asks for {shown(name)}, which plain tensors do not need: {_ADVICE}")


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 1 << 48:
        raise ValueError(f"it has {shown(value)} where a size, a stride or an offset belongs")
    return value
