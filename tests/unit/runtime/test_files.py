"""Model files: what is written is read again, what is damaged is refused, nothing crashes."""

import dataclasses
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
import runtime_driver

import fairseq_hrt
from fairseq_hrt.engine.layers import UnsupportedModelError
from fairseq_hrt.hub.runtime_model import convert, write_runtime_model
from fairseq_hrt.runtime import build
from fairseq_hrt.runtime.engine import ModelFileError


def test_damaged_files(files, tmp_path):
    generator = random.Random(5)
    for path in files:
        assert runtime_driver.try_damaged(path, tmp_path, 60, generator) > 10
        runtime_driver.try_wrong_sizes(path, generator, 60)


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
