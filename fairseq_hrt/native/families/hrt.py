"""Models that write every K-th word first and then the others, for chunk sizes K that they were
trained for."""

import math
from dataclasses import dataclass
from typing import Any, Dict, List, Sequence, Tuple

from ..options.schema import Schema
from .fields import ModelFields
from .record import Family, Shapes


@dataclass(frozen=True, kw_only=True)
class HrtFields(ModelFields):
    """Header fields that describe decoding in chunks, see ``hrt/decoder.py``.

    Attributes:
        chunk_sizes: the numbers of words per chunk that the model was trained for, besides 1.
        special_symbols: how many symbols, besides the target dictionary's, the decoder's input can
            have: the mask, and a start symbol per chunk size.
        relative_window: the distance to which relative positions are clipped; 0: no relative
            positions.
        learn_tail: whether masked positions after ``</s>`` were trained to predict ``</s>``.
    """

    chunk_sizes: Tuple[int, ...] = ()
    special_symbols: int = 0
    relative_window: int = 0
    learn_tail: bool = True


class Hrt(Family):
    """Models that write in chunks: overrides the defaults of :class:`.record.Family` where such
    models differ."""

    def check_header(self, header: HrtFields) -> None:
        sizes = header.chunk_sizes
        header.demand(0 < len(sizes) <= 256 and len(set(sizes)) == len(sizes), "chunk_sizes")
        header.demand(all(2 <= size <= 4096 for size in sizes), "chunk_sizes")
        fits = header.special_symbols == 1 + len(sizes)
        header.demand(fits, "special_symbols", "chunk_sizes")
        header.between(0, 65536, "relative_window")

    def tensors(self, header: HrtFields) -> Shapes:
        width = header.decoder_width
        found: Shapes = {"decoder.special": ("float32", (header.special_symbols, width))}
        if header.relative_window:
            keys = (2 * header.relative_window + 1, width // header.decoder_heads)
            for number in range(header.decoder_layers):
                found[f"decoder.layers.{number}.self.relative"] = ("float32", keys)
        return found

    def spare_positions(self, header: HrtFields) -> int:
        return 1 + max(header.chunk_sizes)

    def takes_first_words(self, header: HrtFields, options: Schema) -> bool:
        return bool(options.hrt_draft_chunk) or {
            size for _, size in chunk_table(options, header.chunk_sizes)
        } == {1}

    def candidates(self, options: Schema, model: Any, beam: int) -> int:
        if options.hrt_nat_beam is None or 1 in (
            size for _, size in chunk_table(options, model.chunk_sizes)
        ):
            return beam
        return min(beam, options.hrt_nat_beam)

    def kernel_options(self, header: HrtFields, options: Schema) -> Dict[str, Any]:
        table = chunk_table(options, header.chunk_sizes)
        return {"table": table, "nat_beam": completed(options, table)}


FAMILY = Hrt(
    "hrt",
    "translation_hrt",
    "hrt_transformer",
    ("hrt_loss",),
    left_to_right=True,
    several=True,
    several_by="--beam and --hrt-nat-beam 2 or more",
    first_words_by="--hrt-decode-chunk 1",
    computation="chunk_sizes|tail_target",
    header_fields=HrtFields,
)


def chunk_table(options: Schema, trained: Sequence[int]) -> List[Tuple[float, int]]:
    """Reads ``--hrt-decode-chunk`` and ``--hrt-chunk-table``. Returns pairs (longest source in
    subwords without ``</s>``, chunk size up to that length), ascending, the last length infinite:
    ``10:1,30:2,inf:1`` gives ``[(10,1), (30,2), (inf,1)]``.

    Args:
        options: the decoding options.
        trained: the chunk sizes that the model was trained for, besides 1.

    Raises:
        ValueError: the table is invalid, or a chunk size was not trained.
    """
    choice = options.hrt_decode_chunk
    if choice == "auto":
        table = _parse_chunk_table(options.hrt_chunk_table)
    elif choice is None:
        table = [(math.inf, min(trained))]
    elif not choice.isdecimal() or int(choice) < 1:
        raise ValueError(
            f"--hrt-decode-chunk {choice!r} is neither a chunk size (1, 2, …) nor auto: give one of"
            " these"
        )
    else:
        table = [(math.inf, int(choice))]
    for size in [*(size for _, size in table), options.hrt_draft_chunk or 1]:
        if size != 1 and size not in trained:
            raise untrained(size, trained)
    return table


def completed(options: Schema, table: Sequence[Tuple[float, int]]) -> int:
    """The number of hypotheses of the first stage (every K-th word) that the second stage completes
    with the words in between: ``--hrt-nat-beam``, or ``--beam`` if that is not given or all chunk
    sizes are 1, which leaves the second stage nothing to do.

    Args:
        options: the decoding options.
        table: the chunk sizes for lengths of sources, from :func:`chunk_table`.

    Raises:
        ValueError: ``--hrt-nat-beam``, ``--nbest``, ``--no-repeat-ngram-size`` or
            ``--hrt-draft-chunk`` does not fit ``--beam`` or the chunk sizes.
    """
    sizes = {size for _, size in table}
    count = options.beam if options.hrt_nat_beam is None or sizes == {1} else options.hrt_nat_beam
    if count > options.beam:
        raise ValueError(
            f"--hrt-nat-beam {count} with --beam {options.beam}: the second stage completes"
            f" hypotheses of the first; give --hrt-nat-beam at most {options.beam}, or a larger"
            " --beam"
        )
    if options.nbest > count and sizes != {1}:
        raise ValueError(
            f"--nbest {options.nbest} with --hrt-nat-beam {count}: there are only as many"
            " translations as the second stage completes; raise --hrt-nat-beam"
        )
    if options.no_repeat_ngram_size and sizes != {1}:
        raise ValueError(
            "--no-repeat-ngram-size: decoding in chunks cannot prevent repeated n-grams, since the"
            " first stage does not see neighbouring tokens and the second decodes them all at once;"
            " give --hrt-decode-chunk 1, or leave this option out"
        )
    if options.hrt_draft_chunk is not None and (options.beam != 1 or sizes != {1}):
        raise ValueError(
            f"--hrt-draft-chunk {options.hrt_draft_chunk}: drafts are corrected by greedy decoding"
            " word by word; give --beam 1 and --hrt-decode-chunk 1, or leave this option out"
        )
    return count


def untrained(size: int, trained: Sequence[int]) -> ValueError:
    """Makes the error for a chunk size that is neither 1 nor among the ``trained`` ones."""
    known = ", ".join(map(str, trained))
    return ValueError(
        f"chunk size {size} was not trained: this model has 1 (autoregressive) and {known}; give"
        " one of these"
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
    # Compared pair by pair: sorting a list with nan in it means nothing.
    ascending = all(lower < upper for lower, upper in zip(limits, limits[1:]))
    if not table or not ascending or limits[-1] != math.inf or any(size < 1 for _, size in table):
        raise ValueError(
            f"--hrt-chunk-table {text!r}: expected ascending source lengths with their chunk sizes,"
            " the last one inf, such as 10:1,30:2,inf:1"
        )
    return table
