"""Compares translation systems on one machine in one run, with one table as the result
(``fairseq-hrt benchmark``); also tunes, traces and draws them."""

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
