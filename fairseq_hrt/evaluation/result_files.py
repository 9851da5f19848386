"""Writes the results of a comparison into files."""

import json
import re
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator, List

from ..native.io.files import write_text
from .comparison import Comparison, to_json


@contextmanager
def drawing() -> Iterator[None]:
    """A context for importing a module that needs matplotlib.

    Raises:
        ValueError: matplotlib is not installed.
    """
    try:
        yield
    except ImportError as error:
        raise ValueError(
            f"no picture without matplotlib ({error}): pip install matplotlib"
        ) from error


def picture_files(folder: Path, name: str) -> List[Path]:
    """The paths of a picture in ``folder``, one for each format (PNG and SVG)."""
    return [folder / f"{name}.{kind}" for kind in ("png", "svg")]


def in_file_names(name: str) -> str:
    """A system's name in a form that is safe in file names: ``HRT k=2`` becomes ``HRT_k_2``."""
    return re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_")


def write_comparison(folder: Path, comparison: Comparison, table: str) -> None:
    """Writes the Markdown ``table``, everything that was measured (``results.json``), pictures and
    each system's translations into ``folder``.

    Raises:
        ValueError: matplotlib is not installed (after everything else was written).
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / "table.md", table)
    raw = json.dumps(to_json(comparison), indent=1, ensure_ascii=False)
    write_text(folder / "results.json", raw + "\n")
    for number, result in enumerate(comparison.results, start=1):
        text = "".join(line + "\n" for line in result.hypotheses)
        write_text(folder / f"translations_{number}_{in_file_names(result.name)}.txt", text)
    with drawing():
        from .picture import draw, draw_throughput
    size = comparison.settings.batch_sizes[0]
    draw(comparison, size, picture_files(folder, "quality_speed"))
    if len(comparison.settings.batch_sizes) > 1:
        draw_throughput(comparison, picture_files(folder, "throughput"))
