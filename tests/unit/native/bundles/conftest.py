"""Bundles that several files translate with."""

import pytest
from native_bundles import with_runtime
from tiny_models import FAMILIES


@pytest.fixture(scope="session")
def bundles(tmp_path_factory):
    """A folder with a bundle of each family that the runtime decodes."""
    place = tmp_path_factory.mktemp("bundles")
    for family in FAMILIES:
        with_runtime(place / family, family)
    return place
