"""The kernel's operations (kernel/operations.h) on NumPy arrays, one at a time. Engines call them
in C."""

import ctypes as C
from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from fairseq_hrt.native.runtime.library import LibraryUnavailable, load_library

INT8, FLOAT32, INT8_16 = 1, 2, 3
NONE, NAN = -1, -2
BLOCK = 16
_ALIGNMENT = 64
_Pointer, _Int, _Long, _Size, _Float = C.c_void_p, C.c_int32, C.c_ssize_t, C.c_size_t, C.c_float


class Matrix(C.Structure):
    """fh_matrix."""

    _fields_ = [
        *((name, C.c_int32) for name in ("kind", "outputs", "inputs", "stride")),
        *((name, C.c_void_p) for name in ("weights", "scales", "bias", "sums")),
    ]


class Input(C.Structure):
    """fh_input."""

    _fields_ = [
        *((name, C.c_int32) for name in ("kind", "rows", "inputs", "stride")),
        ("x", C.c_void_p),
        ("ldx", C.c_ssize_t),
        ("integers", C.c_void_p),
        ("scales", C.c_void_p),
        ("offset", C.c_int32),
    ]


class _Screen(C.Structure):
    _fields_ = [
        *((name, C.c_void_p) for name in ("nibbles", "sums", "reach", "norms")),
        ("norm", C.c_float),
    ]


class Screening(C.Structure):
    _fields_ = [("rest", C.c_int32), ("losses", C.c_int32)]


class _Rule(C.Structure):
    _fields_ = [
        ("banned", C.c_void_p),
        ("bans", C.c_int32),
        ("unk", C.c_int32),
        ("unk_penalty", C.c_float),
    ]


class _Cache(C.Structure):
    _fields_ = [("data", C.c_void_p), ("heads", C.c_int32), ("width", C.c_int32)]


class _Relative(C.Structure):
    _fields_ = [("data", C.c_void_p), ("window", C.c_int32), ("width", C.c_int32)]


class _Attention(C.Structure):
    _fields_ = [
        ("cache", C.POINTER(_Cache)),
        ("tokens", C.c_int32),
        ("rows", C.c_int32),
        ("queries", C.c_void_p),
        ("ldq", C.c_ssize_t),
        ("out", C.c_void_p),
        ("ldo", C.c_ssize_t),
        ("visible", C.c_void_p),
        ("mask", C.c_void_p),
        ("ldm", C.c_ssize_t),
        ("relative", C.POINTER(_Relative)),
        ("query_positions", C.c_void_p),
        ("key_positions", C.c_void_p),
        ("weights", C.c_void_p),
        ("ldw", C.c_ssize_t),
        ("scratch", C.c_void_p),
    ]


class _Table(C.Structure):
    _fields_ = [
        ("name", C.c_char_p),
        (
            "prepare",
            C.CFUNCTYPE(
                None, C.POINTER(Input), _Pointer, C.c_int, _Pointer, _Long, _Int, _Int, C.c_int
            ),
        ),
        (
            "product",
            C.CFUNCTYPE(
                None, C.POINTER(Matrix), C.POINTER(Input), _Pointer, _Long, C.c_int, _Pointer, _Long
            ),
        ),
        (
            "best",
            C.CFUNCTYPE(
                None, C.POINTER(Matrix), C.POINTER(Input), _Pointer, _Pointer, _Pointer, _Pointer
            ),
        ),
        (
            "bounds",
            C.CFUNCTYPE(None, C.POINTER(_Screen), C.POINTER(Matrix), C.POINTER(Input), _Pointer),
        ),
        ("top", C.CFUNCTYPE(_Int, _Pointer, _Int, _Pointer, _Int, _Pointer, _Pointer)),
        ("logsumexp", C.CFUNCTYPE(_Float, _Pointer, _Int)),
        ("softmax", C.CFUNCTYPE(None, _Pointer, _Int)),
        ("exponential", C.CFUNCTYPE(None, _Pointer, _Int)),
        (
            "norm",
            C.CFUNCTYPE(
                None, _Pointer, _Long, _Int, _Int, _Pointer, _Pointer, _Float, _Pointer, _Long
            ),
        ),
        (
            "put",
            C.CFUNCTYPE(None, C.POINTER(_Cache), _Int, _Int, _Pointer, _Long, _Pointer, _Long),
        ),
        ("attend", C.CFUNCTYPE(None, C.POINTER(_Attention))),
        ("scores", C.CFUNCTYPE(None, C.POINTER(_Cache), _Int, _Pointer, _Int, _Pointer)),
    ]


class Rule(NamedTuple):
    """What may not be chosen in a row: ids, and an id that pays a penalty."""

    banned: Sequence[int] = ()
    unk: int = -1
    unk_penalty: float = 0.0


def aligned(size: int, guard: int = 0, fill: int = 0xA5) -> np.ndarray:
    """uint8 ``[size + guard]`` on a boundary of 64 bytes, filled with ``fill``."""
    room = np.full(size + guard + _ALIGNMENT, fill, dtype=np.uint8)
    start = -room.ctypes.data % _ALIGNMENT
    return room[start : start + size + guard]


def _at(array: Optional[np.ndarray]) -> Optional[int]:
    return None if array is None else array.ctypes.data


def _row_step(array: np.ndarray) -> int:
    """Elements between rows."""
    return array.strides[0] // array.itemsize if array.shape[0] > 1 else array.shape[1]


class Operations:
    """One table of operations.

    Args:
        name: of an instruction set; '' for the best.
        library: the kernel; by default this installation's.
        guard: bytes behind every buffer that the kernel writes; :meth:`check_guards` tells whether
            they are untouched.
    """

    def __init__(self, name: str = "", *, library: Optional[C.CDLL] = None, guard: int = 0) -> None:
        self.library = library or load_library()
        why = C.create_string_buffer(512)
        table = self.library.fh_choose(name.encode(), why, 512)
        if not table:
            raise LibraryUnavailable(why.value.decode())
        self.table = _Table.from_address(table)
        self.name = self.table.name.decode()
        self.guard = guard
        self._guarded: List[Tuple[np.ndarray, int]] = []
        for function, result, arguments in (
            ("fh_matrix_size", _Size, [C.c_int, _Int, _Int]),
            (
                "fh_matrix_pack",
                C.c_int,
                [
                    C.POINTER(Matrix),
                    _Pointer,
                    C.c_int,
                    _Int,
                    _Int,
                    _Pointer,
                    _Long,
                    _Pointer,
                    _Pointer,
                ],
            ),
            (
                "fh_matrix_select",
                C.c_int,
                [C.POINTER(Matrix), _Pointer, C.POINTER(Matrix), _Pointer, _Pointer, _Int],
            ),
            ("fh_matrix_rows_size", _Size, [C.POINTER(Matrix)]),
            ("fh_matrix_rows", None, [C.POINTER(Matrix), _Pointer]),
            ("fh_matrix_row", None, [C.POINTER(Matrix), _Int, _Pointer]),
            ("fh_matrix_slice", Matrix, [C.POINTER(Matrix), _Int, _Int]),
            ("fh_input_size", _Size, [C.c_int, _Int, _Int]),
            ("fh_input_rows", Input, [C.POINTER(Input), _Int, _Int]),
            ("fh_screen_size", _Size, [C.POINTER(Matrix)]),
            ("fh_worth_screening", C.c_int, [C.POINTER(Matrix)]),
            ("fh_screen_pack", None, [C.POINTER(_Screen), _Pointer, C.POINTER(Matrix)]),
            (
                "fh_screened_best",
                C.c_int,
                [
                    _Pointer,
                    C.POINTER(Matrix),
                    C.POINTER(_Screen),
                    C.POINTER(Screening),
                    C.POINTER(Input),
                    C.POINTER(Input),
                    *[_Pointer] * 4,
                ],
            ),
            ("fh_cache_size", _Size, [_Int, _Int, _Int]),
            ("fh_relative_size", _Size, [_Int, _Int]),
            ("fh_relative_pack", None, [C.POINTER(_Relative), _Pointer, _Pointer, _Int, _Int]),
            ("fh_attention_scratch", _Size, [_Int, _Int]),
        ):
            entry = getattr(self.library, function)
            entry.restype, entry.argtypes = result, arguments

    def buffer(self, size: int) -> np.ndarray:
        """An aligned buffer of bytes with a guard behind it."""
        room = aligned(size, self.guard)
        if self.guard:
            self._guarded.append((room, size))
        return room[:size]

    def floats(self, *shape: int) -> np.ndarray:
        """An array of float32 in a guarded buffer."""
        count = int(np.prod(shape))
        return self.buffer(4 * count).view(np.float32).reshape(shape)

    def check_guards(self) -> bool:
        """Whether nothing was written behind any buffer since the last time; the latest ones, which
        may be written again, are looked at again."""
        whole = all((room[size:] == 0xA5).all() for room, size in self._guarded)
        del self._guarded[:-64]
        return whole

    # ------------------------------------------------------------------ products

    def pack(
        self,
        weights: np.ndarray,
        scales: Optional[np.ndarray] = None,
        bias: Optional[np.ndarray] = None,
        int8: int = INT8,
    ) -> Matrix:
        """weights ``[outputs, inputs]``, int8 with ``scales`` [outputs] or float32; int8: the kind
        of the former."""
        kind = int8 if weights.dtype == np.int8 else FLOAT32
        outputs, inputs = weights.shape
        buffer = self.buffer(self.library.fh_matrix_size(kind, outputs, inputs))
        matrix = Matrix()
        status = self.library.fh_matrix_pack(
            matrix,
            _at(buffer),
            kind,
            outputs,
            inputs,
            _at(weights),
            _row_step(weights),
            _at(scales),
            _at(bias),
        )
        if status:
            raise ValueError(f"fh_matrix_pack refused the matrix: {status}")
        matrix.keep = buffer
        return matrix

    def select(self, matrix: Matrix, ids: Sequence[int]) -> Matrix:
        """A matrix of some outputs of another one."""
        chosen = np.asarray(ids, dtype=np.int32)
        buffer = self.buffer(self.library.fh_matrix_size(matrix.kind, len(chosen), matrix.inputs))
        result, rows = Matrix(), self.buffer(self.library.fh_matrix_rows_size(matrix))
        self.library.fh_matrix_rows(matrix, _at(rows))
        if self.library.fh_matrix_select(
            result, _at(buffer), matrix, _at(rows), _at(chosen), len(chosen)
        ):
            raise ValueError("an id is out of range")
        result.keep = buffer
        return result

    def row(self, matrix: Matrix, output: int) -> np.ndarray:
        """The weights of one output ``[inputs]``."""
        row = self.floats(matrix.inputs)
        self.library.fh_matrix_row(matrix, output, _at(row))
        return row

    def slice(self, matrix: Matrix, first: int, outputs: int) -> Matrix:
        """Outputs first to first + outputs - 1 without copying."""
        result = self.library.fh_matrix_slice(matrix, first, outputs)
        result.keep = matrix
        return result

    def prepare(self, x: np.ndarray, kind: int, *, positive: bool = False) -> Input:
        """Rows ``[rows, inputs]`` ready to be multiplied."""
        rows, inputs = x.shape
        buffer = self.buffer(self.library.fh_input_size(kind, rows, inputs))
        result = Input()
        self.table.prepare(
            result, _at(buffer), kind, _at(x), _row_step(x), rows, inputs, int(positive)
        )
        result.keep = (buffer, x)
        return result

    def integers(self, prepared: Input) -> Tuple[np.ndarray, np.ndarray]:
        """The quantised integers ``[rows, inputs]`` and the scales ``[rows]`` of prepared rows."""
        kind = (
            C.c_int8
            if prepared.offset < 0 or (prepared.offset == 0 and not self._unsigned())
            else C.c_uint8
        )
        stored = np.ctypeslib.as_array(
            (kind * (prepared.rows * prepared.stride)).from_address(prepared.integers)
        )
        scales = np.ctypeslib.as_array((C.c_float * prepared.rows).from_address(prepared.scales))
        stored = stored.reshape(prepared.rows, prepared.stride)[:, : prepared.inputs].astype(
            np.int32
        )
        return stored - prepared.offset, scales.copy()

    def _unsigned(self) -> bool:
        probe = self.prepare(np.ones((1, 1), np.float32), INT8)
        return probe.offset == 128

    def product(
        self,
        matrix: Matrix,
        prepared: Input,
        *,
        relu: bool = False,
        residual: Optional[np.ndarray] = None,
        out: Optional[np.ndarray] = None,
    ) -> np.ndarray:
        """x W^T + b ``[rows, outputs]``."""
        out = self.floats(prepared.rows, matrix.outputs) if out is None else out
        step = 0 if residual is None else _row_step(residual)
        self.table.product(
            matrix, prepared, _at(out), _row_step(out), int(relu), _at(residual), step
        )
        return out

    def best(
        self,
        matrix: Matrix,
        prepared: Input,
        rules: Optional[Sequence[Rule]] = None,
        *,
        with_sum: bool = False,
    ) -> Tuple[np.ndarray, np.ndarray, Optional[np.ndarray]]:
        """(tokens, values, log-sum-exp or None) of each row."""
        tokens, values = self.buffer(4 * prepared.rows).view(np.int32), self.floats(prepared.rows)
        sums = self.floats(prepared.rows) if with_sum else None
        table, keep = self._rules(rules)
        self.table.best(matrix, prepared, table, _at(tokens), _at(values), _at(sums))
        del keep
        return tokens, values, sums

    # ------------------------------------------------------------------ screening

    def screen(self, matrix: Matrix) -> Any:
        """The upper bits of a matrix, see screen.h."""
        buffer = self.buffer(self.library.fh_screen_size(matrix))
        screen = _Screen()
        self.library.fh_screen_pack(screen, _at(buffer), matrix)
        screen.keep = buffer
        return screen

    def bounds(self, screen: Any, matrix: Matrix, prepared: Input) -> np.ndarray:
        """Upper bounds of all values ``[rows, outputs]``."""
        found = self.floats(prepared.rows, matrix.outputs)
        self.table.bounds(screen, matrix, prepared, _at(found))
        return found

    def screened_best(
        self,
        screen: Any,
        matrix: Matrix,
        prepared: Input,
        rules: Optional[Sequence[Rule]] = None,
        screening: Optional[Screening] = None,
        rough: Optional[Input] = None,
    ) -> Optional[Tuple[np.ndarray, np.ndarray]]:
        """(tokens, values) of each row, or None where they have to be computed in full."""
        tokens, values = self.buffer(4 * prepared.rows).view(np.int32), self.floats(prepared.rows)
        bounds = self.floats(prepared.rows, matrix.outputs)
        table, keep = self._rules(rules)
        found = self.library.fh_screened_best(
            C.addressof(self.table),
            matrix,
            screen,
            screening or Screening(),
            prepared,
            rough or prepared,
            table,
            _at(bounds),
            _at(tokens),
            _at(values),
        )
        del keep
        return (tokens, values) if found else None

    @staticmethod
    def _rules(rules: Optional[Sequence[Rule]]) -> Tuple[Any, Any]:
        if rules is None:
            return None, None
        banned = [np.asarray(rule.banned, dtype=np.int32) for rule in rules]
        table = (_Rule * len(rules))(
            *(
                _Rule(_at(ids), len(ids), rule.unk, rule.unk_penalty)
                for ids, rule in zip(banned, rules)
            )
        )
        return C.cast(table, C.c_void_p), (table, banned)

    # ------------------------------------------------------------------ rows

    def top(
        self, row: np.ndarray, n: int, rule: Optional[Rule] = None
    ) -> Tuple[int, np.ndarray, np.ndarray]:
        """(count or NAN, tokens, values) of the n best."""
        tokens, values = self.buffer(4 * n).view(np.int32), self.floats(n)
        table, keep = self._rules(None if rule is None else [rule])
        found = self.table.top(_at(row), len(row), table, n, _at(tokens), _at(values))
        del keep
        return found, tokens[: max(found, 0)], values[: max(found, 0)]

    def logsumexp(self, row: np.ndarray) -> float:
        """log(sum(exp(row)))."""
        return self.table.logsumexp(_at(row), len(row))

    def in_place(self, operation: str, row: np.ndarray) -> np.ndarray:
        """softmax or exponential of a copy of the row."""
        copy = self.floats(len(row))
        copy[:] = row
        getattr(self.table, operation)(_at(copy), len(copy))
        return copy

    def norm(
        self,
        x: np.ndarray,
        gain: np.ndarray,
        bias: np.ndarray,
        eps: float,
        out: Optional[np.ndarray] = None,
    ) -> np.ndarray:
        """Layer normalisation of rows."""
        out = self.floats(*x.shape) if out is None else out
        self.table.norm(
            _at(x),
            _row_step(x),
            x.shape[0],
            x.shape[1],
            _at(gain),
            _at(bias),
            eps,
            _at(out),
            _row_step(out),
        )
        return out

    # ------------------------------------------------------------------ attention

    def cache(self, heads: int, width: int, tokens: int) -> Any:
        """An empty cache for that many tokens."""
        data = self.buffer(4 * self.library.fh_cache_size(heads, width, tokens))
        cache = _Cache(_at(data), heads, width)
        cache.keep = data
        return cache

    def put(self, cache: Any, at: int, keys: np.ndarray, values: np.ndarray) -> None:
        """Writes tokens; keys and values ``[rows, heads * width]``."""
        self.table.put(
            cache, at, len(keys), _at(keys), _row_step(keys), _at(values), _row_step(values)
        )

    def relative(self, table: np.ndarray) -> Any:
        """Packed relative vectors ``[2 * window + 1, width]``."""
        window, width = len(table) // 2, table.shape[1]
        data = self.buffer(4 * self.library.fh_relative_size(window, width))
        relative = _Relative()
        self.library.fh_relative_pack(relative, _at(data), _at(table), window, width)
        relative.keep = data
        return relative

    def attend(
        self,
        cache: Any,
        tokens: int,
        queries: np.ndarray,
        *,
        visible: Optional[np.ndarray] = None,
        mask: Optional[np.ndarray] = None,
        relative: Optional[Any] = None,
        query_positions: Optional[np.ndarray] = None,
        key_positions: Optional[np.ndarray] = None,
        with_weights: bool = False,
        out: Optional[np.ndarray] = None,
    ) -> Tuple[np.ndarray, Optional[np.ndarray]]:
        """(mixed values ``[rows, heads * width]``, mean weights ``[rows, tokens]`` or None)."""
        out = self.floats(*queries.shape) if out is None else out
        weights = self.floats(len(queries), tokens) if with_weights else None
        scratch = self.floats(
            self.library.fh_attention_scratch(tokens, relative.window if relative else 0)
        )
        call = _Attention(
            C.pointer(cache), tokens, len(queries), _at(queries), _row_step(queries), _at(out),
            _row_step(out), _at(visible), _at(mask),
            0 if mask is None or mask.ndim == 1 else _row_step(mask),
            C.pointer(relative) if relative else None, _at(query_positions), _at(key_positions),
            _at(weights), tokens, _at(scratch),
        )  # fmt: skip
        self.table.attend(call)
        return out, weights

    def scores(self, cache: Any, head: int, query: np.ndarray, tokens: int) -> np.ndarray:
        """Scaled scores of one query of one head ``[tokens]``."""
        out = self.floats(-(-tokens // BLOCK) * BLOCK)
        self.table.scores(cache, head, _at(query), tokens, _at(out))
        return out[:tokens]
