"""Models that write a graph in one pass; paths through the graph are translations."""

import math
from dataclasses import dataclass
from typing import Any, Container, Dict, Optional

from ..options.schema import SEVERAL_PATHS, Schema
from .fields import LARGEST, ModelFields, later
from .record import Family, Shapes


@dataclass(frozen=True, kw_only=True)
class DagFields(ModelFields):
    """Header fields that describe graphs, see ``dag/decoder.py``.

    Attributes:
        link_heads: attention heads of the links between vertices.
        link_rows: rows of the table of position vectors that links read; 1: links do not depend on
            positions.
        reach: the largest v - u of a link from vertex u to v; 0: no limit.
        scale: λ, vertices per source token.
        count_bos: whether ``<s>`` counts as a source token.
        length_classes: number of classes of the head that predicts the translation's length; 0: no
            such head.
        absolute_lengths: True: the classes of this head are lengths of translations; False: they
            are differences from the source's length.
        read_bos: whether the encoder reads ``<s>`` before the source; ``<s>`` then counts as a
            source token.
        besides: how many source tokens (``</s>``, ``<s>``) have one vertex each instead of λ.
    """

    link_heads: int = 0
    link_rows: int = 0
    reach: int = 0
    scale: float = 0.0
    count_bos: bool = False
    length_classes: int = 0
    absolute_lengths: bool = later(False)
    read_bos: bool = later(False)
    besides: int = later(0)


def require_ranking(options: Schema) -> None:
    """Raises ValueError for a beam search with ``--dag-decode-beta`` 0 or less: then the tokens'
    log-probabilities would have no weight, and hypotheses could not be ranked."""
    if options.dag_decode_strategy == "beam" and not options.dag_decode_beta > 0:
        raise ValueError(
            f"--dag-decode-beta {options.dag_decode_beta} must be greater than 0 with"
            " --dag-decode-strategy beam"
        )


def most_vertices(options: Schema, positions: int) -> int:
    """The most vertices of a graph in decoding: ``--dag-max-graph``, but no more than the decoder's
    ``positions``."""
    cap = options.dag_max_graph
    return positions if cap is None else min(cap, positions)


class Dag(Family):
    """Models that write graphs: overrides the defaults of :class:`.record.Family` where such models
    differ."""

    def check_header(self, header: DagFields) -> None:
        header.between(0, LARGEST, "link_rows", "reach", "length_classes")
        header.between(1, header.decoder_width, "link_heads")
        header.demand(header.decoder_width % header.link_heads == 0, "link_heads", "decoder_width")
        fits = header.link_rows == 1 or header.link_rows >= header.longest_target
        header.demand(fits, "link_rows", "longest_target")
        header.demand(0 < header.scale <= 1e6, "scale")
        # A graph has at least a first and a last vertex.
        header.demand(header.longest_target >= 2, "longest_target")
        header.demand(header.length_classes != 1, "length_classes")
        header.demand(header.length_classes > 0 or not header.absolute_lengths, "absolute_lengths")
        header.between(0, 2, "besides")
        # A source has at least ``</s>``.
        header.demand(header.longest_source > header.read_bos, "longest_source", "read_bos")

    def tensors(self, header: DagFields) -> Shapes:
        width = header.decoder_width
        # Queries, keys and gates in one product.
        rows = 2 * width + header.link_heads
        found: Shapes = {
            "links": ("matrix", (rows, width)),
            "links.table": ("float32", (header.link_rows, rows)),
        }
        if header.length_classes:
            found["length_head"] = ("float32", (header.length_classes, header.encoder_width))
            found["length_head.bias"] = ("float32", (header.length_classes,))
        return found

    def writes_in_order(self, header: DagFields) -> bool:
        return False

    def check_options(self, options: Schema) -> None:
        if not 0 < options.dag_sample_topp <= 1:
            raise ValueError(
                f"--dag-sample-topp {options.dag_sample_topp} must be greater than 0 and at most 1"
            )
        scale = options.dag_decode_upsample_scale
        if scale is not None and not scale > 0:
            raise ValueError(f"--dag-decode-upsample-scale {scale} must be greater than 0")

    def check_positions(
        self, options: Schema, positions: int, given: Optional[Container[str]]
    ) -> None:
        cap = options.dag_max_graph
        if cap is None or cap < positions or not (given is None or "dag_max_graph" in given):
            return
        raise ValueError(
            f"--dag-max-graph {cap} has no effect: graphs end at the decoder's {positions}"
            " positions; lower it or leave it out"
        )

    def candidates(self, options: Schema, model: Any, beam: int) -> int:
        return beam if options.dag_decode_strategy in SEVERAL_PATHS else 1

    def kernel_options(self, header: DagFields, options: Schema) -> Dict[str, Any]:
        return {
            "scale": options.dag_decode_upsample_scale or header.scale,
            # Vertices write <unk> only with --dag-allow-unk.
            "unkpen": options.unkpen if options.dag_allow_unk else math.inf,
        }


FAMILY = Dag(
    "dag",
    "translation_dag",
    "dag_transformer",
    ("dag_nll_loss", "dag_fuzzy_loss"),
    several=True,
    several_by="--dag-decode-strategy beam (or sample) and --beam 2 or more",
    graphs=True,
    computation="upsample_base|upsample_scale|count_bos|read_bos|absolute_lengths"
    "|max_transition_length|link_features",
    header_fields=DagFields,
    # Not rounded: the two best links of a vertex are often nearly equal.
    exact=("links",),
)
