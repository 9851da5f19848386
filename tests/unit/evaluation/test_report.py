"""Table, JSON and pictures, from invented results."""

import json
from dataclasses import replace

import pytest
from invented_results import make_comparison, make_result

from fairseq_hrt.evaluation.comparison import Comparison, to_json
from fairseq_hrt.evaluation.footprint import Footprint
from fairseq_hrt.evaluation.picture import draw, draw_throughput
from fairseq_hrt.evaluation.report import decode_signature, markdown
from fairseq_hrt.evaluation.speed import Timing


@pytest.fixture
def comparison():
    return make_comparison()


def table_cells(text):
    rows = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def test_table_holds_the_figures(comparison):
    header, rule, at, hrt = table_cells(markdown(comparison))[:4]
    row = dict(zip(header, hrt))
    assert row["System"] == "HRT k=2 (1,1)"
    assert (row["BLEU"], row["chrF"], row["valid %"]) == ("37.75", "60.00", "25.0")
    assert row["decoder calls / sentence"] == "10.0"
    assert row["ms / sentence p50"] == "200.0"
    assert row["sentences/s"] == "5.0 (5.0–5.0)"
    assert row["words/s"] == "60"
    assert row["× AT greedy"] == "2.00 (2.00–2.00)"
    assert dict(zip(header, at))["× AT greedy"] == "1.00 (1.00–1.00)"
    assert len({len(cells) for cells in (header, rule, at, hrt)}) == 1


def test_the_length_ratio_stands_beside_the_scores(comparison):
    comparison.results[0].quality = replace(comparison.results[0].quality, length_ratio=0.8666)
    header, _, at, hrt = table_cells(markdown(comparison))[:4]
    assert [dict(zip(header, row))["length ratio"] for row in (at, hrt)] == ["0.867", "1.000"]
    ratios = [system["quality"]["length_ratio"] for system in to_json(comparison)["systems"]]
    assert ratios == [0.8666, 1.0]


def test_further_batch_sizes_have_their_own_table(comparison):
    header, _, _, hrt = table_cells(markdown(comparison))[4:]
    row = dict(zip(header, hrt))
    assert row["decoder calls / batch"] == "12.0"
    assert row["sentences/s"] == "10.0 (10.0–10.0)"


def test_signatures_and_machine_stand_below_the_table(comparison):
    text = markdown(comparison)
    assert "task:translation_hrt|checkpoint:best.pt|beam:1" in text
    assert "nrefs:1|tok:13a" in text
    assert "some processor" in text
    assert decode_signature({"a": "1", "b": "2"}) == "a:1|b:2"


def test_without_valid_translations_there_is_no_column(comparison):
    results = [make_result("AT greedy", "translation", 38.0, 0.4)]
    text = markdown(Comparison(results, [], 24, comparison.settings, {}))
    assert "valid %" not in text and "×" not in text


def test_pictures_are_drawn(comparison, tmp_path):
    paths = [tmp_path / "figure.png", tmp_path / "figure.svg"]
    draw(comparison, 1, paths)
    assert paths[0].read_bytes().startswith(b"\x89PNG")
    assert "<svg" in paths[1].read_text()


def test_latency_of_raw_lines_has_its_table(comparison):
    assert "raw line" not in markdown(comparison)
    for result, seconds in zip(comparison.results, (0.4, 0.1)):
        result.raw = Timing([[0], [1], [2], [3]], [[seconds, seconds, seconds, 2 * seconds]] * 3)
    comparison.raw_words = 30
    header, _, _, hrt = table_cells(markdown(comparison))[8:]
    row = dict(zip(header, hrt))
    assert (row["mean ms"], row["p50"], row["p90"], row["p99"]) == (
        "125.0",
        "100.0",
        "200.0",
        "200.0",
    )
    assert row["words/s"] == "60 (60–60)" and row["× AT greedy"] == "4.00 (4.00–4.00)"
    assert json.loads(json.dumps(to_json(comparison)))["systems"][1]["raw"]["seconds"][0][3] == 0.2


def test_memory_and_loading_have_their_table(comparison):
    for result in comparison.results:
        result.footprint = Footprint(1.234, int(250e6), int(400e6), int(5.04e6), None)
    text = markdown(comparison)
    header, _, at, _ = table_cells(text)[8:]
    assert dict(zip(header, at)) == {
        "System": "AT greedy", "loading s": "1.23", "weights MB": "5.0", "peak memory MB": "400",
    }  # fmt: skip
    assert "up to 250 MB" in text and "batches of 32" in text
    comparison.results[0].footprint = Footprint(1, 1, 1, 1, int(7e6))
    assert table_cells(markdown(comparison))[10][-1] == "7"


def test_many_batch_sizes_share_one_table(comparison):
    comparison.settings.batch_sizes = [1, 2, 32]
    for result in comparison.results:
        result.timings[2] = result.timings[1]
    header, _, _, hrt = table_cells(markdown(comparison))[4:]
    assert header == ["System", "batch 1", "batch 2", "batch 32"] and hrt[1:] == [
        "60 (60–60)",
        "60 (60–60)",
        "120 (120–120)",
    ]


def test_comet_is_shown_or_said_to_be_missing(comparison):
    assert "COMET: not run" in markdown(comparison)
    comparison.results[1].comet, comparison.comet = 0.81254, "`model.ckpt`"
    header, _, at, hrt = table_cells(markdown(comparison))[:4]
    place = header.index("COMET")
    assert (at[place], hrt[place]) == ("not run", "0.8125") and "COMET: `model.ckpt`" in markdown(
        comparison
    )


def test_unknown_decoder_calls(comparison):
    comparison.results[1].timings[1].decoder_calls = None
    header, _, _, row = table_cells(markdown(comparison))[:4]
    assert dict(zip(header, row))["decoder calls / sentence"] == "–"
    assert (
        json.loads(json.dumps(to_json(comparison)))["systems"][1]["timings"]["1"]["decoder_calls"]
        is None
    )


def test_throughput_is_drawn(comparison, tmp_path):
    comparison.results[1].name = "costs $5 $"
    draw_throughput(comparison, [tmp_path / "a.png", tmp_path / "a.svg"])
    assert all((tmp_path / f"a.{kind}").stat().st_size > 10_000 for kind in ("png", "svg"))
