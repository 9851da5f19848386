"""The comparison as a Markdown table."""

from typing import Dict, List, Sequence

from .comparison import Comparison, Result
from .speed import Spread


def markdown(comparison: Comparison) -> str:
    """One row a system, then how each decodes, the scores' signatures, and the machine.

    The first batch size stands beside the quality; each further one has a table of its own.
    """
    first, *others = comparison.settings.batch_sizes
    parts = [_table(_quality_header(comparison) + _speed_header(comparison, first), [
        _quality_row(comparison, result) + _speed_row(comparison, result, first) for result in comparison.results
    ])]
    parts.append(_explanation(comparison))
    for size in others:
        rows = [[result.name, *_speed_row(comparison, result, size)] for result in comparison.results]
        parts += [f"Batch size {size}:", _table(["System", *_speed_header(comparison, size)], rows)]
    parts.append("Decoding:\n\n" + "\n".join(_signature_line(result) for result in comparison.results))
    quality = comparison.results[0].quality
    parts.append(f"BLEU: `{quality.bleu_signature}`  \nchrF: `{quality.chrf_signature}`")
    parts.append("Machine: " + "; ".join(f"{key} {value}" for key, value in comparison.environment.items()))
    return "\n\n".join(parts) + "\n"


def decode_signature(signature: Dict[str, str]) -> str:
    """``task:translation|checkpoint:checkpoint_best.pt|beam:1|…``, in the manner of sacreBLEU."""
    return "|".join(f"{key}:{value}" for key, value in signature.items())


def _quality_header(comparison: Comparison) -> List[str]:
    rouge = comparison.results[0].quality.rouge or {}
    return ["System", "BLEU", "chrF", *rouge, *(["valid %"] if _has_valid(comparison) else []),
            *([f"identical to {comparison.identical_to}"] if comparison.identical_to else [])]  # fmt: skip


def _quality_row(comparison: Comparison, result: Result) -> List[str]:
    quality = result.quality
    row = [result.name, f"{quality.bleu:.2f}", f"{quality.chrf:.2f}"]
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
    row = [f"{timing.decoder_calls_per_batch():.1f}"]
    row += [f"{timing.batch_milliseconds(percent):.1f}" for percent in (50, 90)]
    row.append(_spread(timing.sentences_per_second(), 1))
    row.append(f"{timing.words_per_second(comparison.source_words).median:.0f}")
    return row + [_spread(timing.ratio_to(comparison.timing(name, size)), 2) for name in comparison.references]


def _has_valid(comparison: Comparison) -> bool:
    return any(result.quality.valid_share is not None for result in comparison.results)


def _spread(spread: Spread, digits: int) -> str:
    return f"{spread.median:.{digits}f} ({spread.low:.{digits}f}–{spread.high:.{digits}f})"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    cells = [[cell.replace("|", "\\|") for cell in row] for row in [header, *rows]]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]

    def line(row: Sequence[str]) -> str:
        name, *figures = zip(row, widths)
        return "| " + " | ".join([name[0].ljust(name[1]), *(cell.rjust(width) for cell, width in figures)]) + " |"

    rule = "|" + "|".join("-" * (w + 2) if i == 0 else "-" * (w + 1) + ":" for i, w in enumerate(widths)) + "|"
    return "\n".join([line(cells[0]), rule, *(line(row) for row in cells[1:])])


def _explanation(comparison: Comparison) -> str:
    settings = comparison.settings
    count = comparison.results[0].timings[settings.batch_sizes[0]].sentences
    return (
        f"Batch size {settings.batch_sizes[0]}. Quality on {len(comparison.results[0].hypotheses)} sentences. Speed on "
        f"{count} of them, decoding only (loading, binarising and detokenising apart), {settings.threads} thread(s): "
        f"medians of {settings.repeats} interleaved repeats after one for warming up, minimum and maximum in "
        "parentheses; ratios are taken within each repeat."
    )


def _signature_line(result: Result) -> str:
    return f"* {result.name}: `{decode_signature(result.signature)}`"
