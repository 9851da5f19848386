"""The kernel as an editable install would have it: built once, in the source tree, where it is missing or out of date."""

from types import SimpleNamespace

import pytest
import runtime_models

from fairseq_hrt.runtime import build, library


@pytest.fixture(scope="session")
def kernel():
    """The compiled kernel (a ctypes library); skips where there is no C compiler."""
    try:
        return library.load_library()
    except library.LibraryUnavailable:
        built = build.build(objects=build.HERE.parents[1] / build.OBJECTS)
    if not built.library:
        if build.compiler() is None:
            pytest.skip(f"the kernel cannot be built here: {built.reason}")
        pytest.fail(built.reason)
    return library.load_library()


@pytest.fixture(scope="session")
def runtime(tiny, kernel):
    """Models of every family, decoded by the eager engine and by the runtime: the functions of runtime_models.py."""
    names = ("sources", "eager_results", "eager_graphs", "runtime_engine", "check_equal", "same_hypothesis", "NEAR")
    functions = {name: getattr(runtime_models, name) for name in names}
    return SimpleNamespace(
        build=lambda *args, **options: runtime_models.build(tiny.dictionary, *args, **options),
        options=runtime_models.DecodeOptions, **functions,
    )  # fmt: skip
