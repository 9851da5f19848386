"""Checks the sources, translations and shortlists that callers pass to the native engine, and
converts them to arrays for C."""

import ctypes as C
from typing import Any, List, NamedTuple, Sequence, Tuple

import numpy as np

from .header import Header


class Shortlist(NamedTuple):
    """The target words (candidates) that each source word may be translated to. With a shortlist,
    probabilities, and so scores, are normalised over the candidates of the sentence.

    Attributes:
        offsets: int64 ``[source vocabulary + 1]``; candidates of source word w are
            ``candidates[offsets[w]:offsets[w + 1]]``.
        candidates: int32, target ids.
        always: int32, target ids that are candidates of every sentence; the kernel adds the special
            symbols.
    """

    offsets: np.ndarray
    candidates: np.ndarray
    always: np.ndarray


def _target_words(name: str, words: Any, vocabulary: int) -> np.ndarray:
    """Returns token ids of a shortlist as int32.

    Args:
        name: the field of the shortlist, for messages.
        words: that field's ids.
        vocabulary: the size of the target dictionary.

    Raises:
        ValueError: ``words`` is not a list of ids of the target dictionary.
    """
    found = np.asarray(words)
    if found.ndim != 1 or (found.size and found.dtype.kind not in "iu"):
        raise ValueError(
            f"the shortlist's {name} are {found.dtype} of the shape {list(found.shape)}, not a list"
            " of token ids; make the shortlist again"
        )
    wrong = found[(found < 0) | (found >= vocabulary)]
    if wrong.size:
        raise ValueError(
            f"the shortlist's {name} hold the id {wrong[0]}; the model has {vocabulary} target"
            " words; make the shortlist again"
        )
    return np.ascontiguousarray(found, np.int32)


def shortlist_arrays(
    shortlist: Shortlist, header: Header
) -> Tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the arrays of a shortlist for C: int64 offsets ``[source vocabulary + 1]``, int32
    candidates, int32 candidates of every sentence.

    Raises:
        ValueError: the shortlist belongs to other dictionaries than the model.
    """
    offsets = np.ascontiguousarray(shortlist.offsets, np.int64)
    if offsets.shape != (header.source_vocabulary + 1,):
        raise ValueError(
            f"the shortlist is made for {offsets.size - 1} source words, the model has"
            f" {header.source_vocabulary}; make it again with this model's dictionaries"
        )
    candidates, always = (
        _target_words(name, getattr(shortlist, name), header.target_vocabulary)
        for name in ("candidates", "always")
    )
    return offsets, candidates, always


def listed(values: Any, what: str) -> List[Any]:
    """Converts an array or another iterable to a list.

    Raises:
        ValueError: ``values`` is not iterable; the message calls it ``what``.
    """
    try:
        return values.tolist() if isinstance(values, np.ndarray) else list(values)
    except TypeError:
        raise ValueError(f"{what}: {values!r} is not a list") from None


def flatten(rows: Sequence[Sequence[int]], what: str = "source") -> Tuple[Any, Any]:
    """Concatenates rows for C. Returns all tokens, int32, and the start of each row and the end of
    the last, int64: ``[[5, 2], [7]]`` gives ``[5, 2, 7]`` and ``[0, 2, 3]``.

    Raises:
        ValueError: a row is not a list of token ids; the message calls it ``what`` with its number.
    """
    offsets = (C.c_int64 * (len(rows) + 1))()
    flat: List[int] = []
    for number, row in enumerate(rows):
        flat.extend(listed(row, f"{what} {number}"))
        offsets[number + 1] = len(flat)
    bad = [
        token
        for token in flat
        if not isinstance(token, (int, np.integer)) or not 0 <= token < 1 << 31
    ]
    if bad:
        raise ValueError(
            f"{bad[0]!r} is not a token id; each {what} is a list of integers from the dictionary"
        )
    return (C.c_int32 * max(len(flat), 1))(*flat), offsets
