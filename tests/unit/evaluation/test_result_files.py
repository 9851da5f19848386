"""What was measured is written."""

import json

import pytest
from invented_results import make_comparison

from fairseq_hrt.evaluation import picture
from fairseq_hrt.evaluation.result_files import (
    drawing,
    in_file_names,
    picture_files,
    write_comparison,
)


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


def test_what_draws_is_named_where_it_is_missing():
    said = r"^no picture without matplotlib \(no x\): pip install"
    with pytest.raises(ValueError, match=said), drawing():
        raise ImportError("no x")
    with drawing():
        pass


def test_names_of_files(tmp_path):
    assert [path.name for path in picture_files(tmp_path, "a.b")] == ["a.b.png", "a.b.svg"]
    assert in_file_names("HRT k=2 (1,1)") == "HRT_k_2_1_1"
