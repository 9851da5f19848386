"""The kernel, models of every family on it, and a small kernel that compiles in no time."""

from types import SimpleNamespace

import pytest
import runtime_models
import small_kernel

from fairseq_hrt.engine.torch_to_native import write_runtime_model
from fairseq_hrt.native.runtime import library


@pytest.fixture(scope="session")
def kernel():
    """The compiled kernel (a ctypes library)."""
    return library.load_library()


@pytest.fixture(scope="session")
def runtime(tiny, kernel):
    """Models of every family, decoded by the eager engine and by the runtime: the functions of
    runtime_models.py."""
    names = (
        "sources",
        "eager_results",
        "eager_graphs",
        "runtime_engine",
        "check_equal",
        "same_hypothesis",
        "NEAR",
    )
    functions = {name: getattr(runtime_models, name) for name in names}
    return SimpleNamespace(
        build=runtime_models.Shared(tiny.dictionary),
        options=runtime_models.DecodingOptions, **functions,
    )  # fmt: skip


@pytest.fixture
def small(tmp_path):
    """(folder for the library, folder with the sources of a kernel that compiles in no time)."""
    kernel = tmp_path / "kernel"
    kernel.mkdir()
    (kernel / "dispatch.c").write_text(
        '#define FH_PUBLIC __attribute__((visibility("default")))\n#pragma GCC visibility'
        " push(default)\n" + small_kernel.FUNCTIONS
    )
    return tmp_path / "package", kernel


@pytest.fixture(scope="session")
def files(runtime, tmp_path_factory):
    """A file of each family, int8 and float32 in turn."""
    folder, found = tmp_path_factory.mktemp("models"), []
    for number, (arch, overrides) in enumerate(runtime_models.ARCHITECTURES.items()):
        small = dict(
            max_source_positions=12,
            max_target_positions=14,
            encoder_embed_dim=8,
            decoder_embed_dim=8,
            decoder_attention_heads=2,
        )
        model = runtime.build(arch, seed=number, **small, **overrides)
        found.append(folder / f"{arch}.safetensors")
        write_runtime_model(
            model, *model.dictionaries, found[-1], weights=("int8", "float32")[number % 2]
        )
    return found
