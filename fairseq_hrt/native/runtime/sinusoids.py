"""Sinusoidal vectors of positions (Vaswani et al., 2017), the same on every machine."""

import math

import numpy as np


def fairseq_frequencies(width: int) -> np.ndarray:
    """10000^(-i / (width / 2 - 1)) as in fairseq and Marian, rounded to float32 as in training:
    ``[width / 2]``."""
    half = width // 2
    exponents = np.arange(half, dtype=np.float32) * np.float32(-math.log(10000) / max(half - 1, 1))
    return np.exp(exponents.astype(np.float64)).astype(np.float32)


def sinusoids(positions: np.ndarray, frequencies: np.ndarray) -> np.ndarray:
    """Sines of all frequencies, then cosines: float32 ``[positions, 2 * frequencies]``.

    Args:
        positions: ``[positions]``; angles are computed in the frequencies' type, their sines and
            cosines in float64.
    """
    angles = positions.astype(frequencies.dtype)[:, None] * frequencies
    return np.concatenate(
        [np.sin(angles, dtype=np.float64), np.cos(angles, dtype=np.float64)], 1
    ).astype(np.float32)
