"""What fairseq's checkpoints may hold, and what is refused."""

import argparse
import hashlib
import os
import pickle
import zipfile

import numpy
import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.distributed import utils as distributed_utils
from fairseq.logging import meters
from omegaconf import OmegaConf

from fairseq_hrt.compat.checkpoint_loading import (
    TRUST_VARIABLE,
    CorruptCheckpointError,
    UnsafeCheckpointError,
    load,
)


class Trap:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return (os.mkdir, (self.path,))


@pytest.fixture
def save(tmp_path):
    def write(value, name="checkpoint.pt", **kwargs):
        torch.save(value, tmp_path / name, **kwargs)
        return str(tmp_path / name)

    return write


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "before 1.6"])
@pytest.mark.parametrize(
    "value",
    [
        argparse.Namespace(arch="transformer", lr=[0.1]),
        {"weight": torch.arange(3.0), "names": ["a"], "size": (1, 2)},
        numpy.float64(1.5),
        numpy.arange(4),
        numpy.arange(4.0, dtype=numpy.float32),
        meters.AverageMeter(),
    ],
    ids=lambda value: type(value).__name__,
)
def test_types_of_fairseq_checkpoints_load(save, value, zipped):
    loaded = load(save({"value": value}, _use_new_zipfile_serialization=zipped))["value"]
    assert type(loaded) is type(value)
    if isinstance(value, meters.AverageMeter):
        assert vars(loaded) == vars(value)
    elif isinstance(value, dict):
        assert torch.equal(loaded.pop("weight"), value["weight"])
        assert loaded == {"names": ["a"], "size": (1, 2)}
    else:
        assert numpy.all(loaded == value)


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "before 1.6"])
@pytest.mark.parametrize(
    "config",
    [{"model": {"layers": [1, 2], "rate": 0.1, "share": True, "name": None}}, {"model": argparse.Namespace(a=1)}],
    ids=["nodes", "namespace"],
)
def test_configurations_of_omegaconf_load(save, config, zipped):
    saved = OmegaConf.create(config, flags={"allow_objects": True})
    assert load(save({"cfg": saved}, _use_new_zipfile_serialization=zipped)) == {"cfg": config}


def test_arrays_of_the_other_numpy_generation_load(save, tmp_path):
    """NumPy 2 renamed the module under which arrays are pickled."""
    own, other = b"numpy._core.multiarray", b"numpy.core.multiarray"
    if numpy.__version__ < "2":
        own, other = other, own
    renamed = tmp_path / "renamed.pt"
    with zipfile.ZipFile(save(numpy.arange(4))) as source, zipfile.ZipFile(renamed, "w") as target:
        for name in source.namelist():
            content = source.read(name)
            if name.endswith("data.pkl"):
                assert own in content
                content = content.replace(own, other)
            target.writestr(name, content)
    assert numpy.array_equal(load(renamed), numpy.arange(4))


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "before 1.6"])
def test_code_is_refused_by_name_and_not_run(save, tmp_path, zipped):
    path = save({"cfg": None, "x": Trap(tmp_path / "sprung")}, _use_new_zipfile_serialization=zipped)
    with pytest.raises(UnsafeCheckpointError, match=r"holds posix\.mkdir|holds nt\.mkdir") as error:
        load(path)
    assert not (tmp_path / "sprung").exists()
    assert path in str(error.value)
    assert TRUST_VARIABLE in str(error.value)


def test_caller_cannot_switch_the_check_off(save, tmp_path):
    path = save(Trap(tmp_path / "sprung"))
    with pytest.raises(UnsafeCheckpointError):
        load(path, weights_only=False)
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("by", ["path", "other spelling of the path", "digest", "one of several"])
def test_named_file_is_loaded_in_full(save, tmp_path, monkeypatch, caplog, by):
    path = save(Trap(tmp_path / "sprung"))
    with open(path, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    monkeypatch.setenv(
        TRUST_VARIABLE,
        {
            "path": path,
            "other spelling of the path": os.path.join(tmp_path, ".", os.path.basename(path)),
            "digest": digest.upper(),
            "one of several": os.pathsep.join(["/elsewhere.pt", path]),
        }[by],
    )
    load(path)
    assert (tmp_path / "sprung").exists()
    assert path in caplog.text


def test_trust_in_one_file_is_no_trust_in_another(save, tmp_path, monkeypatch):
    trusted = save({}, name="trusted.pt")
    monkeypatch.setenv(TRUST_VARIABLE, os.pathsep.join([trusted, "0" * 64]))
    path = save(Trap(tmp_path / "sprung"))
    with pytest.raises(UnsafeCheckpointError):
        load(path)


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "before 1.6"])
@pytest.mark.parametrize("kept", [0.0, 0.01, 0.5, 0.99])
def test_file_that_is_cut_short_is_named(save, zipped, kept):
    path = save({"weight": torch.randn(500)}, _use_new_zipfile_serialization=zipped)
    with open(path, "r+b") as file:
        file.truncate(int(os.path.getsize(path) * kept))
    with pytest.raises(CorruptCheckpointError, match="cut short") as error:
        load(path)
    assert path in str(error.value)
    assert "\n" not in str(error.value)


def test_memory_that_was_not_to_be_had_is_no_damage(save, monkeypatch):
    path = save({"weight": torch.randn(5)})

    def fails(*args, **kwargs):
        raise RuntimeError("[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory")

    monkeypatch.setattr(torch.serialization, "_load", fails)
    with pytest.raises(CorruptCheckpointError, match="not enough memory to read it") as error:
        load(path)
    assert path in str(error.value) and "cut short" not in str(error.value)


@pytest.mark.parametrize("content", [b"hello\n" * 99, b"PK\x03\x04" + bytes(99), b"\x80\x02."])
def test_file_of_another_kind_is_named(tmp_path, content):
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(CorruptCheckpointError, match=r"notes\.txt"):
        load(path)


def test_missing_file_is_the_usual_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "absent.pt")


def test_fairseq_reads_checkpoints_through_it(save, tmp_path):
    path = save({"cfg": None, "x": Trap(tmp_path / "sprung")})
    with pytest.raises(UnsafeCheckpointError, match="mkdir"):
        checkpoint_utils.load_checkpoint_to_cpu(path)
    with pytest.raises(UnsafeCheckpointError, match="mkdir"):
        checkpoint_utils.load_ema_from_checkpoint(path)


def test_torch_load_of_everybody_else_is_untouched(save):
    path = save(argparse.Namespace(a=1))
    load(path)
    with pytest.raises(pickle.UnpicklingError, match="argparse"):
        torch.load(path)
    assert checkpoint_utils.torch.load is not torch.load
    assert checkpoint_utils.torch.Tensor is torch.Tensor


def test_objects_from_other_workers_keep_their_tensors(save):
    """What `broadcast_object` sends when a training is resumed on several devices."""
    tensors = []
    sent = distributed_utils._split_tensors_from_obj(
        {"state": {0: {"exp_avg": torch.ones(2)}}, "args": argparse.Namespace(a=1)}, tensors
    )
    received = distributed_utils.torch.load(save(sent))
    assert received == sent
    assert distributed_utils._put_tensors_in_obj(received, tensors)["state"][0]["exp_avg"].sum() == 2
