"""Gives the tests the sentences of `examples/corpus`."""

from itertools import islice

import pytest


@pytest.fixture(scope="session")
def generator(load_example):
    return load_example("corpus/generate.py")


@pytest.fixture(scope="session", params=[1, 2, 7])
def sentences(generator, request):
    """Sentences, of several seeds."""
    return list(islice(generator.sentences(request.param), 200))
