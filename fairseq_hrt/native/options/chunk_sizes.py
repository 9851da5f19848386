"""The chunk sizes that hrt decodes with: what its options ask for, by the length of a sentence.

Standard library only: the native engine needs neither PyTorch nor fairseq.
"""

import math
from dataclasses import replace
from typing import List, Sequence, Tuple, TypeVar

from .schema import Schema

Own = TypeVar("Own", bound=Schema)


def chunk_table(options: Schema, trained: Sequence[int]) -> List[Tuple[float, int]]:
    """What ``--hrt-decode-chunk`` and ``--hrt-chunk-table`` ask for: (longest source in subwords
    without ``</s>``, chunk size) pairs, ascending, the last limit infinite.

    Args:
        trained: the chunk sizes of the model.

    Raises:
        ValueError: a value that cannot be read, or a chunk size that was not trained.
    """
    choice = options.hrt_decode_chunk
    if choice == "auto":
        table = _parse_chunk_table(options.hrt_chunk_table)
    elif choice is None:
        table = [(math.inf, min(trained))]
    elif not choice.isdecimal() or int(choice) < 1:
        raise ValueError(
            f"--hrt-decode-chunk {choice!r} is neither a chunk size (1, 2, …) nor auto"
        )
    else:
        table = [(math.inf, int(choice))]
    for size in [*(size for _, size in table), options.hrt_draft_chunk or 1]:
        if size != 1 and size not in trained:
            raise untrained(size, trained)
    return table


def settled_hrt(options: Own, table: Sequence[Tuple[float, int]]) -> Own:
    """The options with ``hrt_nat_beam`` filled in: how many hypotheses of the first stage the
    second one completes.

    Args:
        table: :func:`chunk_table`.

    Raises:
        ValueError: options that do not go together.
    """
    sizes = {size for _, size in table}
    completed = (
        options.beam if options.hrt_nat_beam is None or sizes == {1} else options.hrt_nat_beam
    )
    if completed > options.beam:
        raise ValueError(
            f"--hrt-nat-beam {completed} with --beam {options.beam}: the second stage completes"
            " hypotheses of the first, so it takes at least 1 and at most --beam of them"
        )
    if options.nbest > completed and sizes != {1}:
        raise ValueError(
            f"--nbest {options.nbest} with --hrt-nat-beam {completed}: there are only as many"
            " translations as the second stage completes; raise --hrt-nat-beam"
        )
    if options.no_repeat_ngram_size and sizes != {1}:
        raise ValueError(
            "--no-repeat-ngram-size: the first stage does not see neighbouring tokens and the"
            " second decodes them all at once; use --hrt-decode-chunk 1 for it"
        )
    if options.hrt_draft_chunk is not None and (options.beam != 1 or sizes != {1}):
        raise ValueError(
            "--hrt-draft-chunk: drafts are corrected by greedy decoding word by word; give --beam 1"
            " and --hrt-decode-chunk 1"
        )
    return replace(options, hrt_nat_beam=completed)


def untrained(size: int, trained: Sequence[int]) -> ValueError:
    """The error for a chunk size that a model was not trained for."""
    known = ", ".join(map(str, trained))
    return ValueError(
        f"chunk size {size} was not trained: this model has 1 (autoregressive) and {known}"
    )


def _parse_chunk_table(text: str) -> List[Tuple[float, int]]:
    try:
        table = [
            (float(limit), int(size))
            for limit, size in (entry.split(":") for entry in text.split(","))
        ]
    except ValueError:
        table = []
    limits = [limit for limit, _ in table]
    # Compared pair by pair: no order of a list with nan in it means anything.
    ascending = all(lower < upper for lower, upper in zip(limits, limits[1:]))
    if not table or not ascending or limits[-1] != math.inf or any(size < 1 for _, size in table):
        raise ValueError(
            f"--hrt-chunk-table {text!r}: expected ascending source lengths with their chunk sizes,"
            " the last one inf, such as 10:1,30:2,inf:1"
        )
    return table
