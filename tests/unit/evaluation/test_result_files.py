"""What was measured is written."""

import json

from invented_results import make_comparison

from fairseq_hrt.evaluation import picture
from fairseq_hrt.evaluation.result_files import write_comparison


def test_results_are_written(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(
        picture,
        "draw",
        lambda found, size, paths: drawn.append((size, [path.name for path in paths])),
    )
    monkeypatch.setattr(
        picture, "draw_throughput", lambda found, paths: drawn.append([path.name for path in paths])
    )
    found = make_comparison()
    found.results[1].name = "../a b/ü"
    found.references = []
    write_comparison(tmp_path / "new" / "out", found, "| table |\n")
    files = {path.name: path.read_text() for path in (tmp_path / "new" / "out").iterdir()}
    assert json.loads(files.pop("results.json"))["systems"][1]["name"] == "../a b/ü"
    assert files == {
        "table.md": "| table |\n", "translations_1_AT_greedy.txt": "Ja.\nNein.\n",
        "translations_2_a_b.txt": "Ja.\nNein.\n",
    }  # fmt: skip
    quality = (1, ["quality_speed.png", "quality_speed.svg"])
    assert drawn == [quality, ["throughput.png", "throughput.svg"]]
    found.settings.batch_sizes = [1]
    write_comparison(tmp_path / "new" / "out", found, "")
    assert drawn[2:] == [quality]
