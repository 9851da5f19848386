"""The runtime's kernel for tests that need it."""

import pytest

from fairseq_hrt.runtime import build, library


def require_kernel():
    """Builds the compiled kernel where it is missing; skips without a C compiler."""
    try:
        library.load_library()
    except library.LibraryUnavailable as error:
        if build.compiler() is None:
            pytest.skip(str(error))
        build.build(objects=build.HERE.parents[1] / build.OBJECTS)


@pytest.fixture(scope="module", autouse=True)
def kernel():
    """The compiled kernel, built where it is missing; skips without a C compiler."""
    require_kernel()
