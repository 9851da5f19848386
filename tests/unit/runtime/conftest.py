"""The kernel as an editable install would have it: built once, in the source tree, where it is missing or out of date."""

import pytest

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
