"""Marian's files hold what was written into them; damaged ones are refused on one line before
anything is allocated."""

import io
import struct
import zipfile

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from imported_models import CONFIG, marian_tensors, write_bin, write_npz, yaml

from fairseq_hrt.native.conversion.marian_tensors import read_tensors


@pytest.fixture(scope="module")
def tensors():
    return marian_tensors(20, CONFIG)


def test_both_formats_hold_the_same(tmp_path, tensors):
    text = yaml(CONFIG)
    for path in (
        write_bin(tmp_path / "m.bin", tensors, text),
        write_npz(tmp_path / "m.npz", tensors, text),
    ):
        found, _, config = read_tensors(path)
        assert config == text and found.keys() == tensors.keys()
        assert all(
            np.array_equal(found[name], value) and found[name].dtype == np.float32
            for name, value in tensors.items()
        )
    assert read_tensors(write_bin(tmp_path / "n.bin", tensors, "")).config == ""


def test_columns_first_and_half_precision(tmp_path):
    value = np.arange(6, dtype=np.float16).reshape(2, 3)
    np.savez(tmp_path / "m.npz", a=np.asfortranarray(value), b=np.float64(3.0))
    found = read_tensors(tmp_path / "m.npz").arrays
    assert np.array_equal(found["a"], value.astype(np.float32)) and found["b"] == 3.0


def test_eight_bits_are_within_half_a_step(tmp_path, tensors):
    found, _, _ = read_tensors(write_bin(tmp_path / "m.bin", tensors, "x: y", int8=True))
    assert found.keys() == tensors.keys()
    for name, value in tensors.items():
        step = np.abs(value).max() / 127
        assert (
            found[name].shape == value.shape and np.abs(found[name] - value).max() <= 0.5001 * step
        ), name


HUGE = [
    struct.pack("<QQ", 1, 1 << 60),
    struct.pack("<QQQQQQ", 1, 1, 1 << 60, 0x404, 1, 4),
    struct.pack("<QQQQQQ", 1, 1, 2, 0x404, 1 << 60, 4) + b"a\0",
    struct.pack("<QQQQQQ", 1, 1, 2, 0x404, 4, 4)
    + b"a\0"
    + struct.pack("<4iQ", *[1 << 30] * 4, 0)
    + b"\0" * 4,
    struct.pack("<QQQQQQ", 1, 1, 2, 0x404, 1, 1 << 60) + b"a\0" + struct.pack("<iQ", 1 << 30, 0),
    struct.pack("<QQQQQQ", 1, 1, 2, 0x404, 1, 4) + b"a\0" + struct.pack("<iQ", 1, 1 << 60),
    struct.pack("<QQQQQQ", 1, 1, 2, 0x4101, 1, 5)
    + b"a\0"
    + struct.pack("<iQ", 1, 0)
    + b"\1"
    + struct.pack("<f", 0.0),
    struct.pack("<QQQQQQ", 1, 1, 2, 0x4101, 1, 5)
    + b"a\0"
    + struct.pack("<iQ", 1, 0)
    + b"\1"
    + struct.pack("<f", float("nan")),
    struct.pack("<QQQQQQ", 1, 1, 2, 0x404, 1, 4) + b"a\0" + struct.pack("<iQf", 1, 0, float("inf")),
    struct.pack("<QQQQQQ", 1, 1, 2, 0x1801, 1, 4) + b"a\0" + struct.pack("<iQf", 1, 0, 1.0),
    struct.pack("<QQQQQQ", 1, 1, 2, 0x404, 1, 4) + b"\xff\0" + struct.pack("<iQf", 1, 0, 1.0),
    struct.pack("<QQQQQQ", 1, 1, 2, 0x404, 1, 4) + b"a\0" + struct.pack("<iQf", -1, 0, 1.0),
    # Their product would have a million digits.
    struct.pack("<QQQQQQ", 1, 1, 2, 0x404, 1 << 17, 4)
    + b"a\0"
    + struct.pack("<iQf", 1 << 30, 0, 1.0)[:4] * (1 << 17)
    + b"\0" * 12,
    struct.pack("<QQ", 2, 0),
    b"",
]


@pytest.mark.parametrize("number", range(len(HUGE)))
def test_lengths_are_checked_before_memory_is_taken(tmp_path, number):
    path = tmp_path / "m.bin"
    path.write_bytes(HUGE[number])
    with pytest.raises(ValueError, match="m.bin") as caught:
        read_tensors(path)
    assert "\n" not in str(caught.value)


def npz_member(shape, kind="<f4", data=b"\0" * 16, method=zipfile.ZIP_STORED):
    header = str({"descr": kind, "fortran_order": False, "shape": shape}).encode()
    return zipped(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data, method)


def zipped(content, method=zipfile.ZIP_STORED):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        archive.writestr("a.npy", content)
    return file.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        npz_member((1 << 60,)),
        npz_member((-1,)),
        npz_member((2, 1 << 30, 1 << 30)),
        npz_member((1,), "|O"),
        npz_member((1,), "<U4"),
        npz_member((4,), "<i4"),
        npz_member("__import__('os').abort()"),
        npz_member((1,), "(" * 200),
        zipped(b"\x93NUMPY\x01\x00" + struct.pack("<H", 5000) + b"(" * 5000),
        npz_member((4,), data=b"\xff\xff\xff\x7f" * 4),
        npz_member((1 << 22,), data=b"\0" * (1 << 24), method=zipfile.ZIP_DEFLATED),
        npz_member((1,) * 5),
        # LZMA data begin with 0.
        npz_member((4,), method=zipfile.ZIP_LZMA).replace(b"]\0\0\x80\0\0", b"]\0\0\x80\0\1"),
        b"no archive",
    ],
)
def test_archives_too(tmp_path, content):
    path = tmp_path / "m.npz"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="m.npz") as caught:
        read_tensors(path)
    assert "\n" not in str(caught.value)


@settings(
    max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(
    st.sampled_from(["bin", "npz"]),
    st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), max_size=4),
    st.floats(0.9, 1.1),
)
def test_damaged_files_are_read_or_refused(tmp_path, tensors, kind, changes, length):
    path = tmp_path / f"m.{kind}"
    (write_bin if kind == "bin" else write_npz)(
        path, {name: tensors[name] for name in list(tensors)[:4]}, yaml(CONFIG)
    )
    content = bytearray(path.read_bytes())
    for place, value in changes:
        # Heads, where most can go wrong, above all.
        content[int(place**4 * len(content))] = value
    path.write_bytes(content[: int(length * len(content))])
    try:
        read_tensors(path)
    except ValueError as error:
        assert path.name in str(error) and "\n" not in str(error)
