"""What a comparison measured, as files."""

import json
import re
from pathlib import Path

from ..files import write_text
from .comparison import Comparison, to_json


def write_comparison(folder: Path, comparison: Comparison, table: str) -> None:
    """Writes table, raw figures, pictures and translations into ``folder``.

    Raises:
        ValueError: matplotlib is not installed (after everything else was written).
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / "table.md", table)
    raw = json.dumps(to_json(comparison), indent=1, ensure_ascii=False)
    write_text(folder / "results.json", raw + "\n")
    for number, result in enumerate(comparison.results, start=1):
        name = re.sub(r"[^A-Za-z0-9]+", "_", result.name).strip("_")
        text = "".join(line + "\n" for line in result.hypotheses)
        write_text(folder / f"translations_{number}_{name}.txt", text)
    try:
        from .picture import draw, draw_throughput
    except ImportError as error:
        raise ValueError(
            f"no picture without matplotlib ({error}): pip install matplotlib"
        ) from error
    size = comparison.settings.batch_sizes[0]
    draw(comparison, size, [folder / f"quality_speed.{kind}" for kind in ("png", "svg")])
    if len(comparison.settings.batch_sizes) > 1:
        draw_throughput(comparison, [folder / f"throughput.{kind}" for kind in ("png", "svg")])
