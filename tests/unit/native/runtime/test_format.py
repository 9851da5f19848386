"""Model files as they are written and read; what is wrong with one is named by its tensor."""

import json
import os
import struct

import numpy as np
import pytest

from fairseq_hrt.native.families.fields import ModelFileError
from fairseq_hrt.native.runtime.engine import Engine
from fairseq_hrt.native.runtime.format import (
    EMBEDDINGS,
    KEY,
    check_tensors,
    expected_tensors,
    read_header,
    read_model,
    write_model,
)


def test_a_file_holds_the_model(runtime, files):
    for path in files:
        header, tensors = read_model(path)
        assert header == read_header(path) == type(header).from_json(header.to_json())
        rows = [[5, 6, 7, 2], [4, 2]]
        with Engine.open(path) as opened, Engine(header, tensors, threads=2) as built:
            assert opened.decode(rows, runtime.options(beam=1)) == built.decode(
                rows, runtime.options(beam=1)
            )
            assert opened.weight_bytes > 0


def test_wrong_tensors_are_not_written(files, tmp_path):
    header, tensors = read_model(files[0])
    name = "decoder.layers.0.inner"
    for key, value, message in (
        (name, tensors[name][:, 1:], "shape"), (name, tensors[name].astype(np.int16), "int16"),
        (f"{name}.scale", -tensors[f"{name}.scale"], "negative"),
        (name, np.full_like(tensors[name], -128), "-128"),
        (f"{name}.bias", tensors[f"{name}.bias"] * np.nan, "not finite"),
        ("more", tensors[name], "more"),
        ("decoder.embedding.rest", tensors["decoder.embedding"][1:], "rest is int8"),
        (f"{name}.rest", tensors[name], "belongs to no part"),
        ("decoder.embedding.rest", np.full_like(tensors["decoder.embedding"], -128), "-128"),
    ):  # fmt: skip
        with pytest.raises(ModelFileError, match=message):
            write_model(tmp_path / "model", header, {**tensors, key: value})
    with pytest.raises(ModelFileError, match=name):
        write_model(
            tmp_path / "model",
            header,
            {key: value for key, value in tensors.items() if key != name},
        )
    assert not list(tmp_path.iterdir())
    for content in (b"", b"PK\x03\x04", b"\x80\x02}q\x00.", os.urandom(100)):
        (tmp_path / "file").write_bytes(content)
        with pytest.raises(ModelFileError, match="safetensors"):
            read_model(tmp_path / "file")
    with pytest.raises(ModelFileError, match="no such file"):
        read_model(tmp_path / "nothing")


def test_types_that_numpy_does_not_have_are_named(files, tmp_path):
    content = files[0].read_bytes()
    size = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8 : 8 + size])
    name = next(name for name, tensor in header.items() if tensor.get("dtype") == "I8")
    header[name]["dtype"] = "F8_E4M3"
    head = json.dumps(header).encode()
    (tmp_path / "file").write_bytes(struct.pack("<Q", len(head)) + head + content[8 + size :])
    with pytest.raises(ModelFileError, match="float8_e4m3"):
        read_model(tmp_path / "file")


def test_a_file_has_exactly_the_tensors_of_its_header(files):
    for path in files:
        header, tensors = read_model(path)
        expected = expected_tensors(header)
        scales = {f"{name}.scale" for name in expected if tensors[name].dtype == np.int8}
        rests = {f"{name}.rest" for name in EMBEDDINGS if f"{name}.rest" in tensors}
        assert set(tensors) == set(expected) | scales | rests
        assert bool(scales) == (header.weights == "int8")
        assert {name: tensors[name].shape for name in expected} == {
            name: shape for name, (_, shape) in expected.items()
        }
        check_tensors(header, tensors)


def test_a_file_appears_when_it_is_complete(files, tmp_path, monkeypatch):
    header, tensors = read_model(files[0])
    write_model(tmp_path / "model", header, tensors)
    again, same = read_model(tmp_path / "model")
    assert again == header and all((tensors[name] == same[name]).all() for name in tensors)
    before = (tmp_path / "model").read_bytes()

    def full(arrays, path, metadata):
        with open(path, "wb") as file:
            file.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("safetensors.numpy.save_file", full)
    with pytest.raises(OSError, match="No space"):
        write_model(tmp_path / "model", header, tensors)
    assert (tmp_path / "model").read_bytes() == before and os.listdir(tmp_path) == ["model"]


def test_what_is_no_model_of_the_runtime(files, tmp_path):
    from safetensors.numpy import save_file

    header, tensors = read_model(files[1])
    path = tmp_path / "model"
    save_file(tensors, str(path))
    with pytest.raises(
        ModelFileError, match="model: it is not a model of the native engine .*--runtime int8"
    ):
        read_header(path)
    save_file(
        {**tensors, "more": tensors["decoder.embedding"]},
        str(path),
        metadata={KEY: header.to_json()},
    )
    assert read_header(path) == header, "of which no tensor is read"
    with pytest.raises(ModelFileError, match="the tensor 'more' belongs to no part"):
        read_model(path)
