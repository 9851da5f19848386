"""Writes a comparison of systems as Markdown tables."""

from typing import Dict, List, Sequence

from ..native.io.escaping import code_in_markdown, in_markdown
from .comparison import Comparison, Result
from .footprint import Footprint
from .speed import Spread


def markdown(comparison: Comparison) -> str:
    """The report: a table with a row for each system; below it decoding options, metric signatures
    and the machine.

    The first table has quality, and speed at the first batch size. If one further batch size was
    measured, a second table has the same figures of speed for it; if several were, the second table
    has words per second for all batch sizes.
    """
    first, *others = comparison.settings.batch_sizes
    parts = [
        _table(
            _quality_header(comparison) + _speed_header(comparison, first),
            [
                _quality_row(comparison, result) + _speed_row(comparison, result, first)
                for result in comparison.results
            ],
        )
    ]
    parts.append(_explanation(comparison))
    if len(others) == 1:
        rows = [
            [result.name, *_speed_row(comparison, result, others[0])]
            for result in comparison.results
        ]
        parts += [
            f"Batch size {others[0]}:",
            _table(["System", *_speed_header(comparison, others[0])], rows),
        ]
    elif others:
        parts += ["Words/s by batch size:", _throughput(comparison)]
    if comparison.results[0].raw is not None:
        parts += [
            (
                "One raw line at a time, tokenisation and detokenisation included, loading apart"
                f" ({comparison.raw_words} words):"
            ),
            _latency(comparison),
        ]
    if comparison.results[0].footprint is not None:
        parts += [_memory_note(comparison), _memory(comparison)]
    parts.append(
        "Decoding:\n\n" + "\n".join(_signature_line(result) for result in comparison.results)
    )
    quality = comparison.results[0].quality
    rouge = "  \nROUGE: F1 by rouge-score, Porter's stemmer" if quality.rouge else ""
    parts.append(
        f"BLEU: `{quality.bleu_signature}`  \nchrF: `{quality.chrf_signature}`{rouge}  \nCOMET:"
        f" {comparison.comet}"
    )
    parts.append(
        "Machine: " + "; ".join(f"{key} {value}" for key, value in comparison.environment.items())
    )
    return "\n\n".join(parts) + "\n"


def decode_signature(signature: Dict[str, str]) -> str:
    """A system's decoding options in one line, in the manner of sacreBLEU's signatures:
    ``task:translation|checkpoint:checkpoint_best.pt|beam:1|…``."""
    return "|".join(f"{key}:{value}" for key, value in signature.items())


def _quality_header(comparison: Comparison) -> List[str]:
    rouge = comparison.results[0].quality.rouge or {}
    return [
        *("System", "BLEU", "chrF", "length ratio"),
        *(["COMET"] if _has_comet(comparison) else []),
        *rouge,
        *(["valid %"] if _has_valid(comparison) else []),
        *([f"identical to {comparison.identical_to}"] if comparison.identical_to else []),
    ]


def _quality_row(comparison: Comparison, result: Result) -> List[str]:
    quality = result.quality
    row = [result.name, f"{quality.bleu:.2f}", f"{quality.chrf:.2f}", f"{quality.length_ratio:.3f}"]
    if _has_comet(comparison):
        row.append("not run" if result.comet is None else f"{result.comet:.4f}")
    row += [f"{value:.2f}" for value in (quality.rouge or {}).values()]
    if _has_valid(comparison):
        row.append("" if quality.valid_share is None else f"{100 * quality.valid_share:.1f}")
    if comparison.identical_to:
        row.append(f"{comparison.identical(result)}/{len(result.best)}")
    return row


def _speed_header(comparison: Comparison, size: int) -> List[str]:
    unit = "sentence" if size == 1 else "batch"
    header = [f"decoder calls / {unit}", f"ms / {unit} p50", "p90", "sentences/s", "words/s"]
    return header + [f"× {reference}" for reference in comparison.references]


def _speed_row(comparison: Comparison, result: Result, size: int) -> List[str]:
    timing = result.timings[size]
    calls = timing.decoder_calls_per_batch()
    row = ["–" if calls is None else f"{calls:.1f}"]
    row += [f"{timing.batch_milliseconds(percent):.1f}" for percent in (50, 90)]
    row.append(_spread(timing.sentences_per_second(), 1))
    row.append(f"{timing.words_per_second(comparison.source_words).median:.0f}")
    return row + [
        _spread(timing.ratio_to(comparison.timing(name, size)), 2) for name in comparison.references
    ]


def _throughput(comparison: Comparison) -> str:
    """A table of words per second: a row for each system, a column for each batch size."""
    sizes = comparison.settings.batch_sizes
    rows = []
    for result in comparison.results:
        speeds = [result.timings[size].words_per_second(comparison.source_words) for size in sizes]
        rows.append([result.name, *(_spread(speed, 0) for speed in speeds)])
    return _table(["System", *(f"batch {size}" for size in sizes)], rows)


def _latency(comparison: Comparison) -> str:
    header = [
        "System",
        "mean ms",
        "p50",
        "p90",
        "p99",
        "words/s",
        *(f"× {name}" for name in comparison.references),
    ]
    timings = {result.name: result.raw for result in comparison.results if result.raw is not None}
    rows = []
    for name, timing in timings.items():
        row = [name, f"{timing.mean_milliseconds():.1f}"]
        row += [f"{timing.batch_milliseconds(percent):.1f}" for percent in (50, 90, 99)]
        row.append(_spread(timing.words_per_second(comparison.raw_words), 0))
        rows.append(
            row
            + [
                _spread(timing.ratio_to(timings[reference]), 2)
                for reference in comparison.references
            ]
        )
    return _table(header, rows)


def _footprints(comparison: Comparison) -> Dict[str, Footprint]:
    return {
        result.name: result.footprint
        for result in comparison.results
        if result.footprint is not None
    }


def _memory_note(comparison: Comparison) -> str:
    base = max(own.base_bytes for own in _footprints(comparison).values()) / 1e6
    size = max(comparison.settings.batch_sizes)
    return (
        "Loading and memory, each system in a process of its own that translates the same"
        f" sentences in batches of {size}; before it loads anything, Python with PyTorch takes up"
        f" to {base:.0f} MB of the peak:"
    )


def _memory(comparison: Comparison) -> str:
    found = _footprints(comparison)
    gpu = any(own.gpu_bytes is not None for own in found.values())
    rows = []
    for name, own in found.items():
        row = [
            name,
            f"{own.load_seconds:.2f}",
            f"{own.model_bytes / 1e6:.1f}",
            f"{own.peak_bytes / 1e6:.0f}",
        ]
        rows.append(row + ([f"{(own.gpu_bytes or 0) / 1e6:.0f}"] if gpu else []))
    return _table(
        [
            "System",
            "loading s",
            "weights MB",
            "peak memory MB",
            *(["peak GPU memory MB"] if gpu else []),
        ],
        rows,
    )


def _has_comet(comparison: Comparison) -> bool:
    return any(result.comet is not None for result in comparison.results)


def _has_valid(comparison: Comparison) -> bool:
    return any(result.quality.valid_share is not None for result in comparison.results)


def _spread(spread: Spread, digits: int) -> str:
    return f"{spread.median:.{digits}f} ({spread.low:.{digits}f}–{spread.high:.{digits}f})"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    cells = [[in_markdown(cell) for cell in row] for row in [header, *rows]]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]

    def line(row: Sequence[str]) -> str:
        name, *figures = zip(row, widths)
        return (
            "| "
            + " | ".join([name[0].ljust(name[1]), *(cell.rjust(width) for cell, width in figures)])
            + " |"
        )

    rule = (
        "|"
        + "|".join("-" * (w + 2) if i == 0 else "-" * (w + 1) + ":" for i, w in enumerate(widths))
        + "|"
    )
    return "\n".join([line(cells[0]), rule, *(line(row) for row in cells[1:])])


def _explanation(comparison: Comparison) -> str:
    settings = comparison.settings
    count = comparison.results[0].timings[settings.batch_sizes[0]].sentences
    return (
        f"Batch size {settings.batch_sizes[0]}. Quality on {len(comparison.results[0].hypotheses)}"
        " sentences; the length ratio is that of the translations' words to the references'. Speed"
        f" on {count} of them, decoding only (loading, binarising and detokenising apart),"
        f" {settings.threads} thread(s): medians of {settings.repeats} interleaved repeats after"
        " one for warming up, minimum and maximum in parentheses; ratios are taken within each"
        " repeat."
    )


def _signature_line(result: Result) -> str:
    return f"* {in_markdown(result.name)}: {code_in_markdown(decode_signature(result.signature))}"
