"""NumPy's arrays in checkpoints: those that NumPy writes load as they were, all others are refused
and never looked at."""

from argparse import Namespace

import numpy
import pytest
import torch
from fairseq.logging.meters import AverageMeter
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from fairseq_hrt.compat.checkpoint_loading import load

core = getattr(numpy, "_core", None) or numpy.core
STATE = (3, "<", None, None, None, -1, -1, 0)
KINDS = ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "U1", "U7")


class Pickled:
    """Is pickled as the call of a function, and what is told to its result."""

    def __init__(self, function, *arguments, state=None):
        self.parts = (function, arguments) if state is None else (function, arguments, state)

    def __reduce__(self):
        return self.parts


def kind(text="f8", state=STATE, copy=True):
    return Pickled(numpy.dtype, text, False, copy, state=state)


def array(kind, shape=(4,), data=b"A" * 32, begin=(numpy.ndarray, (0,), b"b"), **changes):
    state = {
        "version": 1,
        "shape": shape,
        "kind": kind,
        "by_columns": False,
        "data": data,
        **changes,
    }
    return Pickled(core.multiarray._reconstruct, *begin, state=tuple(state.values()))


def with_fields(kind):
    return (*STATE[:3], ("a",), {"a": (kind, 0)}, *STATE[5:])


FORGED = {
    "fields of objects": (array(kind(state=with_fields(kind("O")))),
                          "the NumPy type 'O', which is not one of plain numbers"),
    "fields": (array(kind(state=with_fields(kind()))),
               "the NumPy type float64 with a size, fields or flags that NumPy does not write"),
    "fields far away": (array(kind(state=(*STATE[:4], {"a": (kind(), 10**9)}, *STATE[5:]))),
                        "flags that NumPy does not write"),
    "subarray": (array(kind(state=(*STATE[:2], (kind(), (10**9,)), *STATE[3:]))),
                 "flags that NumPy does not write"),
    "flags": (array(kind(state=(*STATE[:7], 63))), "flags that NumPy does not write"),
    "the process's own type": (array(kind(state=(*STATE[:7], 63), copy=False)), "flags that NumPy does not write"),
    "size": (array(kind(state=(*STATE[:5], 4, -1, 0))), "flags that NumPy does not write"),
    "alignment": (array(kind(state=(*STATE[:6], 3, 0))), "flags that NumPy does not write"),
    "byte order": (array(kind(state=(3, ">", *STATE[2:]))), "flags that NumPy does not write"),
    "text of any length": (array(kind("U1", (3, "<", None, None, None, 4 * 10**9, 4, 8))),
                           "flags that NumPy does not write"),
    "text of negative length": (array(kind("U1", (3, "<", None, None, None, -8, 4, 8))),
                                "flags that NumPy does not write"),
    "state that is not a tuple": (array(kind(state=[1])), "flags that NumPy does not write"),
    "parts of any type": (array(kind(state=(3, "<", None, None, torch.ones(2), -1, -1, 0))),
                          "flags that NumPy does not write"),
    "objects": (array(kind("O", (3, "|", None, None, None, -1, -1, 63)), data=[1, 2, 3, 4]),
                "'O', which is not one of plain"),
    "records": (array(kind("V8", (3, "|", None, None, None, 8, 1, 0))),
                "'V8', which is not one of plain"),
    "long doubles": (array(kind("f16", STATE)), "'f16', which is not one of plain"),
    "list of fields": (array(Pickled(numpy.dtype, [("a", "O")])), "which is not one of plain"),
    "another order of arguments": (Pickled(numpy.dtype), "missing 1 required"),
    "too short": (array(kind(), (10**12,)),
                  "the shape (1000000000000,) and the type float64 with 32 bytes instead of 8000000000000"),
    "too long": (array(kind(), (3,)), "with 32 bytes instead of 24"),
    "negative shape": (array(kind(), (-2, -2)), "the shape (-2, -2)"),
    "shape of other numbers": (array(kind(), (4.0,)), "the shape (4.0,)"),
    "shape that is not a tuple": (array(kind(), [4]), "which NumPy does not write"),
    "too many dimensions": (array(kind(), (1,) * 99, b"A" * 8), "a NumPy array of the shape"),
    "odd beginning": (array(kind(), begin=(numpy.ndarray, (10**9,), b"d")),
                      "a NumPy array that begins as"),
    "other class": (array(kind(), begin=(Namespace, (0,), b"b")), "a NumPy array that begins as"),
    "memory of its own": (Pickled(numpy.ndarray, (10**12,), kind()), "takes no arguments"),
    "no state": (Pickled(core.multiarray._reconstruct, numpy.ndarray, (0,), b"b"),
                 "a NumPy array with the state None"),
    "other version": (array(kind(), version=2), "which NumPy does not write"),
    "data that is no bytes": (array(kind(), data=bytearray(32)), "bytearray"),
    "no type": (array(None), "which NumPy does not write"),
    "short scalar": (Pickled(core.multiarray.scalar, kind(), b"abcd"),
                     "a NumPy scalar and the type float64 with 4 bytes instead of 8"),
    "scalar of no type": (Pickled(core.multiarray.scalar, "f8", b"A" * 8),
                          "a NumPy scalar of the type 'f8'"),
    "no character": (Pickled(core.multiarray.scalar,
                             kind("U1", (3, "<", None, None, None, 4, 4, 8)), b"\xff\xff\xff\x7f"),
                     "with the character 0x7fffffff, which Unicode does not have"),
}  # fmt: skip


@pytest.mark.parametrize("value, reason", FORGED.values(), ids=FORGED)
@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "before 1.6"])
def test_forged_arrays_are_refused(tmp_path, value, reason, zipped):
    torch.save({"x": [(value,)]}, tmp_path / "x.pt", _use_new_zipfile_serialization=zipped)
    with pytest.raises(ValueError) as error:
        load(tmp_path / "x.pt")
    said = str(error.value)
    assert (
        said.startswith(str(tmp_path / "x.pt"))
        and reason in said
        and said.isprintable()
        and len(said) < 1000
    )
    # The process itself still has its own, as before.
    assert numpy.dtype("f8").flags == 0 and numpy.ones(2).tolist() == [1, 1]


@settings(max_examples=40)
@given(
    st.sampled_from(KINDS).flatmap(
        lambda text: arrays.arrays(text, arrays.array_shapes(min_dims=0, max_dims=3))
    ),
    st.booleans(),
)
def test_arrays_and_scalars_load_as_they_were(tmp_path_factory, value, by_columns):
    value = numpy.asarray(value, order="F" if by_columns else "C")
    path = tmp_path_factory.mktemp("arrays") / "x.pt"
    # An empty text is pickled in another way.
    scalar = value[(0,) * value.ndim] or value.dtype.type(1)
    torch.save({"array": value, "scalar": scalar}, path)
    loaded = load(path)
    for name, expected in (("array", value), ("scalar", scalar)):
        found = loaded[name]
        assert (
            type(found) is type(expected)
            and found.dtype == expected.dtype
            and found.shape == expected.shape
        )
        assert found.tobytes() == expected.tobytes()
    assert (
        loaded["array"].flags.writeable
        and loaded["array"].flags.f_contiguous == value.flags.f_contiguous
    )


def test_arrays_are_found_wherever_they_stand(tmp_path):
    counts, meter = numpy.arange(3), AverageMeter()
    meter.sum = counts
    value = {
        "dictionary": {1: counts},
        "list": [counts],
        "tuple": (0, ([counts], counts)),
        "meter": meter,
        "namespace": Namespace(x=(counts,)),
    }
    value["itself"] = [value, (value,)]
    torch.save(value, tmp_path / "x.pt")
    found = load(tmp_path / "x.pt")
    places = [
        found["dictionary"][1], found["list"][0], found["tuple"][1][0][0], found["tuple"][1][1],
        found["meter"].sum, found["namespace"].x[0],
    ]  # fmt: skip
    assert found["itself"][0] is found and all(
        type(place) is numpy.ndarray and place is places[0] for place in places
    )
    assert places[0].tolist() == [0, 1, 2]
