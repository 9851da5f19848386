"""Sinusoidal vectors of positions (Vaswani et al., 2017), the same on every machine."""

import math

import numpy as np


def fairseq_frequencies(width: int) -> np.ndarray:
    """The frequencies 10000^(-i / (width / 2 - 1)) of sinusoidal positions as in fairseq and
    Marian, for embeddings of ``width`` numbers: float32 ``[width / 2]``, rounded as in training."""
    half = width // 2
    exponents = np.arange(half, dtype=np.float32) * np.float32(-math.log(10000) / max(half - 1, 1))
    return np.exp(exponents.astype(np.float64)).astype(np.float32)


def sinusoids(positions: np.ndarray, frequencies: np.ndarray) -> np.ndarray:
    """The vector of each position, the sines of all frequencies followed by the cosines: float32
    ``[positions, 2 * frequencies]``.

    Args:
        positions: integers ``[positions]``.
        frequencies: ``[frequencies]``. Angles are computed in their type, sines and cosines in
            float64.
    """
    angles = positions.astype(frequencies.dtype)[:, None] * frequencies
    return np.concatenate(
        [np.sin(angles, dtype=np.float64), np.cos(angles, dtype=np.float64)], 1
    ).astype(np.float32)
