"""Vectors of positions against the formulas, in Python's own arithmetic."""

import math

import numpy as np
import pytest

from fairseq_hrt.native.runtime.sinusoids import fairseq_frequencies, sinusoids


@pytest.mark.parametrize("width", [2, 8, 512])
def test_frequencies_of_fairseq(width):
    found, half = fairseq_frequencies(width), width // 2
    assert found.dtype == np.float32
    expected = [10_000 ** (-number / max(half - 1, 1)) for number in range(half)]
    np.testing.assert_allclose(found, expected, rtol=2e-6)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_sines_before_cosines_of_angles_as_precise_as_the_frequencies(kind):
    frequencies, positions = np.array([1, 0.1, 1 / 3], kind), np.arange(5, 900)
    found = sinusoids(positions, frequencies)
    angles = [[float(kind(place) * one) for one in frequencies] for place in positions]
    expected = [[*map(math.sin, row), *map(math.cos, row)] for row in angles]
    assert found.dtype == np.float32 and np.array_equal(found, np.array(expected, np.float32))
