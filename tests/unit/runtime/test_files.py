"""Model files: what is written is read again, what is damaged is refused, nothing crashes."""

import dataclasses
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import runtime_driver

import fairseq_hrt
from fairseq_hrt.engine.layers import UnsupportedModelError
from fairseq_hrt.hub.runtime_model import convert, write_runtime_model
from fairseq_hrt.runtime import build
from fairseq_hrt.runtime.engine import Engine, ModelFileError, NumericalError, read_header, read_model
from fairseq_hrt.runtime.format import write_model

ARCHITECTURES = {
    "transformer": {}, "hrt_transformer": dict(share_all_embeddings=True), "bidirectional_transformer": dict(bidirectional_tokens_per_step=2),
    "dag_transformer": dict(dag_upsample_base="predict", dag_upsample_scale="1.5"),
}  # fmt: skip


@pytest.fixture(scope="module")
def files(runtime, tmp_path_factory):
    """A file of each family, int8 and float32 in turn."""
    folder, found = tmp_path_factory.mktemp("models"), []
    for number, (arch, overrides) in enumerate(ARCHITECTURES.items()):
        small = dict(
            max_source_positions=12,
            max_target_positions=14,
            encoder_embed_dim=8,
            decoder_embed_dim=8,
            decoder_attention_heads=2,
        )
        model = runtime.build(arch, seed=number, **small, **overrides)
        found.append(folder / f"{arch}.safetensors")
        write_runtime_model(model, *model.dictionaries, found[-1], weights=("int8", "float32")[number % 2])
    return found


def test_a_file_holds_the_model(runtime, files):
    for path in files:
        header, tensors = read_model(path)
        assert header == read_header(path) == type(header).from_json(header.to_json())
        rows = [[5, 6, 7, 2], [4, 2]]
        with Engine.open(path) as opened, Engine(header, tensors, threads=2) as built:
            assert opened.decode(rows, runtime.options(beam=1)) == built.decode(rows, runtime.options(beam=1))
            assert opened.weight_bytes > 0


def test_damaged_files(files, tmp_path):
    generator = random.Random(5)
    for path in files:
        assert runtime_driver.try_damaged(path, tmp_path, 60, generator) > 10
        runtime_driver.try_wrong_sizes(path, generator, 60)


@pytest.mark.parametrize("change, message", [
    (lambda values: values.pop("eos"), "'eos'"), (lambda values: values.update(colour=1), "'colour'"), (lambda values: values.update(format=2), "format is 2"),
    (lambda values: values.update(pad=2.0), "'pad'"), (lambda values: values.update(pad=True), "'pad'"), (lambda values: values.update(pad=2), "pad=2, eos=2"),
    (lambda values: values.update(decoder_heads=3), "decoder_heads=3"), (lambda values: values.update(family="x"), "family"),
    (lambda values: values.update(decoder_scale=float("nan")), "decoder_scale"), (lambda values: values.update(chunk_sizes=[2]), "chunk_sizes"),
    (lambda values: values.update(encoder_layers=10**9), "encoder_layers"), (lambda values: values.update(decoder_scale=10**400), "decoder_scale"),
    (lambda values: values.update(target_vocabulary=10**9), "target_vocabulary"), (lambda values: values.update(decoder_layers=3), "no tensor"),
    (lambda values: values.update(unk=10**6), "unk"),
])  # fmt: skip
def test_wrong_headers(files, tmp_path, change, message):
    from safetensors.numpy import save_file

    header, tensors = read_model(files[0])
    values = json.loads(header.to_json())
    change(values)
    path = tmp_path / "model"
    save_file(tensors, str(path), metadata={"fairseq_hrt.runtime": json.dumps(values)})
    with pytest.raises(ModelFileError, match=message) as caught:
        read_model(path)
    assert str(path) in str(caught.value)


def test_wrong_tensors_are_not_written(files, tmp_path):
    header, tensors = read_model(files[0])
    name = "decoder.layers.0.inner"
    for key, value, message in (
        (name, tensors[name][:, 1:], "shape"), (name, tensors[name].astype(np.int16), "int16"), (f"{name}.scale", -tensors[f"{name}.scale"], "negative"),
        (name, np.full_like(tensors[name], -128), "-128"), (f"{name}.bias", tensors[f"{name}.bias"] * np.nan, "not finite"), ("more", tensors[name], "more"),
        ("decoder.embedding.rest", tensors["decoder.embedding"][1:], "rest is int8"), (f"{name}.rest", tensors[name], "belongs to no part"),
        ("decoder.embedding.rest", np.full_like(tensors["decoder.embedding"], -128), "-128"),
    ):  # fmt: skip
        with pytest.raises(ModelFileError, match=message):
            write_model(tmp_path / "model", header, {**tensors, key: value})
    with pytest.raises(ModelFileError, match=name):
        write_model(tmp_path / "model", header, {key: value for key, value in tensors.items() if key != name})
    assert not list(tmp_path.iterdir())
    for content in (b"", b"PK\x03\x04", b"\x80\x02}q\x00.", os.urandom(100)):
        (tmp_path / "file").write_bytes(content)
        with pytest.raises(ModelFileError, match="safetensors"):
            read_model(tmp_path / "file")
    with pytest.raises(ModelFileError, match="no such file"):
        read_model(tmp_path / "nothing")


def test_not_a_number_is_named(runtime):
    """Weights so large that sums overflow: finite in the file, broken in use."""
    for arch in ARCHITECTURES:
        model = runtime.build(arch)
        header, tensors = convert(model, *model.dictionaries, weights="float32")
        tensors["decoder.layers.0.inner"] = np.full_like(tensors["decoder.layers.0.inner"], 3e38)
        with Engine(header, tensors) as engine, pytest.raises(NumericalError, match="NaN"):
            engine.decode([[4, 5, 2]], runtime.options(beam=1))


@pytest.mark.parametrize("overrides, message", [
    (dict(activation_fn="linear"), "activation-fn linear"), (dict(decoder_input_dim=8, decoder_output_dim=8), "decoder-input-dim"),
    (dict(cross_self_attention=True), "cross-self-attention"),
])  # fmt: skip
def test_models_that_the_runtime_does_not_know(runtime, overrides, message):
    model = runtime.build(**overrides)
    with pytest.raises(UnsupportedModelError, match=message):
        convert(model, *model.dictionaries)


def test_unknown_weights_and_dictionaries(runtime, tiny):
    model = runtime.build()
    with pytest.raises(ValueError, match="int4"):
        convert(model, *model.dictionaries, weights="int4")
    header, _ = convert(model, *model.dictionaries)
    with pytest.raises(ModelFileError, match="eos=77"):
        dataclasses.replace(header, eos=77).check()


@pytest.mark.slow
@pytest.mark.parametrize("sanitizers", ("address,undefined", "thread"))
def test_under_sanitizers(runtime, files, tmp_path, sanitizers):
    """Every way of decoding and damaged files; memory, undefined behaviour, and data races of threads."""
    command = build.compiler()
    if command is None:
        pytest.skip("no C compiler")
    name = {"address,undefined": "libasan.so", "thread": "libtsan.so"}[sanitizers]
    found = subprocess.run([*command, f"-print-file-name={name}"], capture_output=True, text=True).stdout.strip()
    if not Path(found).is_file():
        pytest.skip(f"the compiler has no {name}")
    flags = [
        f"-fsanitize={sanitizers}",
        "-O0",
        "-g1",
        *(["-fno-sanitize-recover=undefined"] if "undefined" in sanitizers else []),
    ]
    built = build.compile_library(tmp_path / build.LIBRARY, objects=tmp_path / "objects", extra=flags)
    environment = {**os.environ, "LD_PRELOAD": found, "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
                   "TSAN_OPTIONS": "exitcode=66", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # fmt: skip
    mutations = "40" if "address" in sanitizers else "0"
    if sanitizers == "thread":
        # Its products are large enough for several threads.
        sizes = dict(
            encoder_embed_dim=64,
            decoder_embed_dim=64,
            encoder_layers=1,
            decoder_layers=1,
            max_source_positions=5,
            max_target_positions=4,
        )
        model = runtime.build(symbols=9000, share_all_embeddings=True, **sizes)
        files = [*files, tmp_path / "large.safetensors"]
        write_runtime_model(model, *model.dictionaries, files[-1])
    arguments = [runtime_driver.__file__, Path(fairseq_hrt.__file__).parent, mutations, "3", built.library, *files]
    finished = subprocess.run([sys.executable, *map(str, arguments)], capture_output=True, text=True, env=environment)
    assert finished.returncode == 0 and "done" in finished.stdout, finished.stdout[-2000:] + finished.stderr[-6000:]
