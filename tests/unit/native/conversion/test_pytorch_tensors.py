"""PyTorch's files are read without PyTorch, as data: the same tensors as PyTorch loads, and nothing
in them is run."""

import collections
import io
import os
import pickle
import zipfile

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_hrt.native.conversion.pytorch_tensors import read_pytorch

KINDS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
OLDER = dict(_use_new_zipfile_serialization=False)


def saved(state, path, older):
    torch.save(state, path, **(OLDER if older else {}))
    return path


@st.composite
def states(draw):
    """Dictionaries of tensors: views, shared ones, parameters, without dimensions or numbers."""
    generator = torch.Generator().manual_seed(draw(st.integers(0, 1000)))
    shapes = st.lists(st.integers(0, 4), max_size=3)
    found = collections.OrderedDict()
    for number in range(draw(st.integers(0, 5))):
        whole = torch.randn(draw(shapes), generator=generator).to(draw(st.sampled_from(KINDS)))
        if whole.dim() > 1 and draw(st.booleans()):
            whole = whole.transpose(0, 1)
        if whole.dim() and draw(st.booleans()):
            whole = whole[1:]
        found[f"{number}.weight"] = torch.nn.Parameter(whole) if draw(st.booleans()) else whole
    for name in [*found][:2]:
        if draw(st.booleans()):
            found[f"tied {name}"] = found[name]
    return found


@settings(max_examples=100, deadline=None)
@given(state=states(), older=st.booleans())
def test_the_tensors_are_those_that_pytorch_loads(state, older, tmp_path_factory):
    path = saved(state, tmp_path_factory.mktemp("saved") / "a", older)
    found = {name: (value, size) for name, value, size in read_pytorch(path)}
    assert [*found] == [*state]
    for name, value in torch.load(path, weights_only=True).items():
        read, size = found[name]
        assert read.dtype == np.float32 and read.shape == tuple(value.shape)
        assert np.array_equal(read, value.detach().float().numpy(), equal_nan=True)
        assert size == value.numel() * value.element_size()


@pytest.mark.parametrize("older", [True, False])
def test_a_models_own_state(older, tmp_path):
    """With the attribute in which PyTorch keeps versions of modules."""
    state = torch.nn.Transformer(8, 2, 1, 1, 8).state_dict()
    found = {name: value for name, value, _ in read_pytorch(saved(state, tmp_path / "a", older))}
    assert found.keys() == state.keys()
    assert all(np.array_equal(found[name], value.numpy()) for name, value in state.items())


class Runs:
    def __init__(self, function, *arguments):
        self.parts = function, arguments

    def __reduce__(self):
        return self.parts


def archived(pickled, path, **entries):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("m/data.pkl", pickled)
        for name, content in entries.items():
            archive.writestr(f"m/{name}", content)
    return path


def assert_refused(path, message):
    with pytest.raises(ValueError, match=message) as caught:
        list(read_pytorch(path))
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def view(offset, shape, strides):
    """A tensor of four numbers as it is pickled, with another place in them."""
    storage = torch.arange(4.0).storage()
    return Runs(torch._utils._rebuild_tensor_v2, storage, offset, shape, strides, False, {})


@pytest.mark.parametrize("older", [True, False])
@pytest.mark.parametrize("place", [
    (2, (3,), (1,)), (0, (2,), (4,)), (4, (1,), (1,)), (0, (2, 2), (3, 1)), (0, (5,), (1,)),
    (1 << 40, (1,), (1,)), (0, (2,), (1 << 40,)), (0, (5,), (0,)),
])  # fmt: skip
def test_no_tensor_reaches_beyond_its_numbers(place, older, tmp_path):
    path = saved({"a": view(*place)}, tmp_path / "a", older)
    assert_refused(path, "'a' has the shape .* the file holds fewer numbers")


@pytest.mark.parametrize("older", [True, False])
@pytest.mark.parametrize("place", [(1, (3,), (1,)), (0, (2, 2), (2, 1)), (3, (2,), (0,))])
def test_views_within_their_numbers_are_read(place, older, tmp_path):
    ((_, found, _),) = read_pytorch(saved({"a": view(*place)}, tmp_path / "a", older))
    assert np.array_equal(found, torch.arange(4.0).as_strided(place[1], place[2], place[0]).numpy())


@pytest.mark.parametrize("older", [True, False])
@pytest.mark.parametrize("state, message", [
    ([1], "it holds a list, not tensors by their names"),
    ({1: torch.ones(1)}, "it holds a dict, not tensors by their names"),
    ({"a": 3}, "'a' is not a plain tensor"),
    ({"a": {"b": torch.ones(1)}}, "'a' is not a plain tensor"),
    ({"a": torch.ones(2, dtype=torch.int64)}, "'a' is a 'torch.LongStorage', which is not floating"),
    ({"a": torch.ones(1).expand(1 << 40)}, "'a' has the shape .* the file holds fewer numbers"),
    ({"a": torch.ones(3).to_sparse()}, "it asks for 'torch[.].*', which plain tensors"),
    ({"a": torch.empty(1 << 40, device="meta")}, "_rebuild_meta_tensor_no_storage'"),
    ({"a": Runs(os.mkdir, "made")}, r"it asks for '\w+.mkdir', which plain tensors do not need"),
    ({"a": Runs(exec, "raise SystemExit")}, "it asks for 'builtins.exec'|'__builtin__.exec'"),
])  # fmt: skip
def test_what_is_refused(state, message, older, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert_refused(saved(state, tmp_path / "a", older), message)
    assert os.listdir() == ["a"]


@pytest.mark.parametrize("older, message", [
    (True, "it holds a whole model, not"), (False, "its pickle has the operation NEWOBJ"),
])  # fmt: skip
def test_whole_models_are_refused_with_advice(older, message, tmp_path):
    path = saved(torch.nn.Linear(2, 2), tmp_path / "a", older)
    assert_refused(path, rf"{message}.*: save the model's state_dict\(\) in this file")


def test_pickles_of_other_programs(tmp_path):
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        path = tmp_path / str(protocol)
        path.write_bytes(pickle.dumps({"a": Runs(exec, "raise SystemExit")}, protocol))
        assert_refused(path, "its pickle has the operation|it asks for|is not a file of PyTorch")
        archived(path.read_bytes(), path)
        assert_refused(path, "its pickle has the operation|it asks for")
    assert_refused(archived(b"\x80\x02}.}.", tmp_path / "z", byteorder=b"big"), "big-endian")
    assert [*read_pytorch(archived(b"\x80\x02}.", tmp_path / "z", byteorder=b"little"))] == []
    for content in (
        b"",
        b"}",
        b"\x80\x02",
        b"a.",
        b"(.",
        b"0.",
        b"h\0.",
        b"R.",
        b"(t(s.",
        b"K\1Q.",
    ):
        assert_refused(archived(content, tmp_path / "z"), "is not a file of PyTorch|operation")
        (tmp_path / "y").write_bytes(content)
        assert_refused(tmp_path / "y", "is not a file of PyTorch|operation")


def test_a_small_file_takes_little_memory(tmp_path):
    """However long its pickle claims to be, or its numbers, once they are unpacked."""
    assert_refused(archived(b"N" * (1 << 23), tmp_path / "a"), "is not a file of PyTorch")
    with zipfile.ZipFile(tmp_path / "b", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("m/data.pkl", b"N" * (1 << 20) + b".")
    assert_refused(tmp_path / "b", "is not a file of PyTorch")
    # A text of 4 GB.
    (tmp_path / "c").write_bytes(b"\x80\x02X\xff\xff\xff\xff")
    assert_refused(tmp_path / "c", "is not a file of PyTorch")


@settings(max_examples=300, deadline=None)
@given(data=st.data(), older=st.booleans())
def test_damaged_files_are_refused_or_read(data, older, tmp_path_factory):
    """Nothing but an error of this kind comes of changed bytes."""
    stream = io.BytesIO()
    torch.save({"a": torch.ones(2, 3), "b": torch.zeros(1)}, stream, **(OLDER if older else {}))
    content = bytearray(stream.getvalue())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    content = content[: data.draw(st.sampled_from([len(content), len(content) // 2]))]
    path = tmp_path_factory.mktemp("damaged") / "a"
    path.write_bytes(content)
    try:
        found = list(read_pytorch(path))
    except ValueError as error:
        assert str(path) in str(error)
    else:
        assert all(value.size <= 64 for _, value, _ in found)
