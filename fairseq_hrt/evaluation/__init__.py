"""Comparing translation systems: one machine, one run, one table (``fairseq-hrt benchmark``)."""

__all__ = [
    "comet",
    "comparison",
    "footprint",
    "graph_picture",
    "length",
    "picture",
    "quality",
    "report",
    "result_files",
    "sentence_trace",
    "step_colours",
    "trace_picture",
    "tuning",
]
