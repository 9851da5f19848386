"""What fairseq's checkpoints may hold, and what is refused."""

import argparse
import hashlib
import os
import pickle
import random
import signal
import struct
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
    [
        {"model": {"layers": [1, 2], "rate": 0.1, "share": True, "name": None}},
        {"model": argparse.Namespace(a=1)},
    ],
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
    path = save(
        {"cfg": None, "x": Trap(tmp_path / "sprung")}, _use_new_zipfile_serialization=zipped
    )
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
        raise RuntimeError(
            "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate"
            " memory"
        )

    monkeypatch.setattr(torch.serialization, "_load", fails)
    with pytest.raises(CorruptCheckpointError, match="not enough memory to read it") as error:
        load(path)
    assert path in str(error.value) and "cut short" not in str(error.value)


@pytest.mark.parametrize(
    "error",
    [
        SystemError("invalid maximum character"),
        MemoryError(),
        RecursionError("maximum recursion depth exceeded"),
        OverflowError("too large"),
        struct.error("unpack requires a buffer of 4 bytes"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
        zipfile.BadZipFile("File is not a zip file"),
        NotImplementedError("compression type 99"),
        AssertionError(),
        ZeroDivisionError("division by zero"),
        ImportError("no module of this name"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_whatever_a_file_makes_pytorch_raise_is_one_line(save, monkeypatch, error):
    path = save({"weight": torch.randn(5)})

    def fails(*args, **kwargs):
        raise error

    monkeypatch.setattr(torch.serialization, "_load", fails)
    with pytest.raises(CorruptCheckpointError, match="cut short|not enough memory") as refusal:
        load(path)
    assert path in str(refusal.value) and "\n" not in str(refusal.value)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="each mutant is loaded in a fork")
def test_mutants_are_refused_or_load(save, tmp_path):
    """Bytes of checkpoints changed, lost, repeated: nothing but refusals of one line, and arrays
    that can be looked at."""
    meter = meters.AverageMeter()
    meter.sum = numpy.arange(4)
    metrics = [
        (
            0,
            "bleu",
            "AverageMeter",
            {"val": numpy.arange(4.0), "sum": numpy.float64(1.5), "text": numpy.str_("ab")},
        ),
        meter,
    ]
    state = {
        "cfg": {"model": argparse.Namespace(arch="transformer")},
        "model": {"w": torch.ones(3)},
        "extra_state": {"metrics": metrics},
    }
    with zipfile.ZipFile(save(state)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with open(save(state, _use_new_zipfile_serialization=False), "rb") as file:
        old = file.read()
    target, loaded = tmp_path / "mutant.pt", 0
    for batch in range(4):
        # A crash, or a file that is never read to its end, is the fork's alone.
        child = os.fork()
        if child == 0:
            signal.alarm(120)
            generator, outcomes = random.Random(batch), []
            for number in range(50):
                if number % 2:
                    target.write_bytes(mutated(old, generator))
                else:
                    with zipfile.ZipFile(target, "w") as archive:
                        for name, content in members.items():
                            archive.writestr(
                                name,
                                (
                                    mutated(content, generator)
                                    if name.endswith("data.pkl")
                                    else content
                                ),
                            )
                outcomes.append(outcome(target))
            os._exit(255 if None in outcomes else sum(outcomes))
        found = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert 0 <= found < 50, f"batch {batch}: {found}"
        loaded += found
    assert 2 < loaded < 100


def mutated(data, generator):
    data = bytearray(data)
    for _ in range(generator.randint(1, 4)):
        place, kind = generator.randrange(len(data)), generator.randrange(4)
        if kind == 0:
            data[place] = generator.randrange(256)
        elif kind == 1:
            del data[place : place + generator.randint(1, 4)]
        elif kind == 2:
            data[place:place] = bytes(
                generator.choices(b"}]()KMJGXtRbuesa.cq0h\x85\x86\x87\x8aNQ\x81", k=2)
            )
        else:
            data[place : place + 8] = data[generator.randrange(len(data)) :][
                : generator.randint(1, 12)
            ]
    return bytes(data)


def outcome(path):
    """Whether a file loads; None: it ends neither in that nor in a refusal."""
    try:
        repr(load(path))
    except (UnsafeCheckpointError, CorruptCheckpointError) as error:
        return False if "\n" not in str(error) and len(str(error)) < 2000 else None
    except BaseException:
        return None
    return True


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
    assert (
        distributed_utils._put_tensors_in_obj(received, tensors)["state"][0]["exp_avg"].sum() == 2
    )
