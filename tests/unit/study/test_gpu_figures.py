"""examples/study/gpu.py: what pages print of a run on a GPU."""

import json

import gpu
import pages
import pytest
from figures import HERE, Figures

FIGURES = Figures()


def decoded(system, way, batch, ms, calls=10.0, layers="6+6"):
    """A row of decoding."""
    return {
        "part": "decoding", "layers": layers, "batch": batch, "system": system, "way": way,
        "ms": ms * batch, "ms_a_sentence": ms, "calls": calls,
    }  # fmt: skip


ROWS = [
    decoded("Transformer greedy", "captured", 1, 6.0),
    decoded("Transformer greedy", "eager", 1, 80.0),
    decoded("Transformer greedy", "captured", 128, 0.125),
    decoded("dag greedy", "captured", 1, 1.5, calls=1.0),
    decoded("ctc greedy", "eager", 1, 6.5),
    decoded("fairseq greedy", "stock", 1, 150.0, calls=None),
    decoded("Transformer greedy", "captured", 1, 3.0, layers="12+1"),
    {"part": "decoding", "layers": "6+6", "batch": 128, "system": "dag greedy", "way": "captured",
     "not_run": "no time left"},
    {"part": "training", "layers": "6+6", "system": "Transformer", "ms": 60.0, "peak_mib": 2500.0,
     "tokens_a_second": 68000},
    {"part": "training", "layers": "6+6", "system": "Transformer", "way": "profile",
     "busy_ms": 12.0},
]  # fmt: skip


def run_of(tmp_path, rows):
    """A run with these rows."""
    path = tmp_path / "gpu.json"
    path.write_text(json.dumps({"environment": {"gpu": "A card"}, "rows": rows}))
    return gpu.GpuRun(path)


def test_figures_by_their_places(tmp_path):
    run = run_of(tmp_path, ROWS)
    places = {
        "gpu": "A card",
        "decoding/Transformer greedy/captured/ms_a_sentence@128": 0.125,
        "decoding/Transformer greedy/captured/ms_a_sentence@1@12+1": 3.0,
        "training/Transformer/tokens_a_second": 68000,
        "training/Transformer/profile/busy_ms": 12.0,
        "times/dag greedy/Transformer greedy/captured@1": 4.0,
        "cost/dag greedy/Transformer greedy/captured@1": 2.5,
        # 60 ms for 4,096 tokens: 300,000 updates take 18,000 seconds.
        "hours/Transformer/4096": 5.0,
        "hours/Transformer/65536": 80.0,
    }
    assert {place: run.value(place) for place in places} == pytest.approx(places)


@pytest.mark.parametrize(
    "place",
    [
        "none",
        "decoding/dag greedy/captured/ms_a_sentence@128",
        "decoding/dag greedy/captured/seconds@1",
        "times/dag greedy/Transformer greedy/captured@128",
        "hours/hrt/4096",
    ],
)
def test_what_was_not_measured_has_no_figure(tmp_path, place):
    with pytest.raises(gpu.NotMeasured):
        run_of(tmp_path, ROWS).value(place)


def test_tables_have_dashes_for_what_was_not_measured(tmp_path):
    run = run_of(tmp_path, ROWS)
    # Nothing was measured at batch size 32.
    assert gpu.decoding(run)[1] == [
        ["Transformer", "6.00", "1.00", "0.125", "1.00"],
        ["dag, greedy", "1.50", "4.00", "–", "–"],
        ["fairseq", "150", "0.04", "–", "–"],
    ]
    figures = Figures()
    figures.gpu = run
    assert pages.cell("{gpu:hours/Transformer/4096:.1f}", figures) == "5.0"
    assert pages.cell("{gpu:hours/hrt/4096:.1f}", figures) == "–"
    assert gpu.training(run)[1] == [["Transformer", "68,000", "60", "12", "5", "80", "–"]]


def test_a_part_is_of_one_run(tmp_path):
    """That of the first file which has it, even where it failed there."""
    files = []
    for number, rows in enumerate((
        [{"part": "decoding", "system": "hrt k=2", "way": "captured", "failed": "x"}],
        [
            {"part": "decoding", "system": "hrt k=2", "way": "captured", "ms": 1.0},
            {"part": "losses", "system": "likelihood", "way": "ours", "tokens": 26, "ms": 2.0},
        ],
    )):  # fmt: skip
        files.append(tmp_path / f"{number}.json")
        files[-1].write_text(json.dumps({"environment": {"gpu": str(number)}, "rows": rows}))
    run = gpu.GpuRun(*files)
    assert run.value("gpu") == "0" and run.value("losses/likelihood/ours/ms@26") == 2.0
    with pytest.raises(gpu.NotMeasured):
        run.value("decoding/hrt k=2/captured/ms")


def test_without_graphs_where_that_is_faster(tmp_path):
    rows = [*ROWS, decoded("Transformer greedy", "eager", 128, 0.1),
            decoded("Transformer greedy", "eager", 1, 70.0),
            decoded("fairseq greedy", "stock", 128, 0.5)]  # fmt: skip
    run = run_of(tmp_path, rows)
    assert run.best("Transformer greedy", 128) == (0.1, "eager")
    assert run.best("Transformer greedy", 1) == (6.0, "captured")
    assert run.value("times/Transformer greedy/fairseq greedy/best@128") == 5.0
    with pytest.raises(gpu.NotMeasured):
        run.value("times/ctc greedy/Transformer greedy/best@1")


def test_what_graphs_keep(tmp_path):
    """Where something else was freed meanwhile the difference says nothing."""
    sizes = {"Transformer greedy": 30.2, "hrt k=2": -7.0, "dag greedy": 12.0}
    rows = [
        {"part": "decoding", "layers": "6+6", "batch": 1, "system": name, "way": "captured",
         "kept_mib": size} for name, size in sizes.items()
    ]  # fmt: skip
    assert "keep at least 12 to 30 MiB at batch size 1." in gpu.kept(run_of(tmp_path, rows))
    assert "not measured" in gpu.kept(run_of(tmp_path, ROWS))


@pytest.mark.parametrize("name", gpu.TABLES)
def test_published_tables_are_small(name):
    header, rows = gpu.TABLES[name](FIGURES.gpu)
    assert rows and len(header) <= 7 and {len(row) for row in rows} == {len(header)}


def test_aims_are_judged_by_the_figures(tmp_path):
    loss = {"part": "losses", "system": "alignment", "tokens": 26}
    trained = {**ROWS[-2], "system": "dag likelihood", "share_of_matrix_product": 0.12}
    run = run_of(tmp_path, [
        *ROWS,
        decoded("bidirectional", "captured", 1, 3.0, calls=4.0),
        decoded("dag lookahead", "captured", 1, 0.75, calls=1.0),
        decoded("fairseq beam 5", "stock", 1, 140.0, calls=None),
        decoded("Transformer greedy", "eager", 128, 0.1),
        {**ROWS[0], "system": "hrt k=2", "ms": 4.0, "failed": "an error"},
        {**loss, "way": "ours", "ms": 2.0, "peak_mib": 5.0},
        {**loss, "way": "reference", "ms": 1.0, "peak_mib": 5.0},
        trained,
        {**trained, "way": "profile", "busy_ms": 15.0, "groups": {"matrix products": 10.0}},
        {**trained, "way": "other sizes", "by_tokens": {"16380": {"ms": 120.4}}},
    ])  # fmt: skip
    found = {row[0]: row[1:] for row in gpu.aims(run)[1]}
    assert found["Transformer, beside fairseq"] == [
        "30×", "25.0×", "missed", "6.00 and 150 ms",
    ]  # fmt: skip
    assert found["bidirectional, beside Transformer"] == ["1.8×", "2.00×", "met", ""]
    assert found["dag, greedy, beside Transformer"] == [
        "8×", "4.00×", "missed", "one pass, as long as 2.5 of 10 steps",
    ]  # fmt: skip
    assert found["dag, lookahead, beside Transformer"][1:3] == ["8.00×", "met"]
    assert found["dag, greedy, beside fairseq, beam 5"][1:3] == ["93.3×", "missed"]
    assert found["hrt k = 2, beside Transformer"] == [
        "1.7×", "–", "not measured", "failed in this run",
    ]  # fmt: skip
    assert found["CUDA graphs beside none, batch size 128"] == [
        "1×", "0.80×", "missed", "Transformer",
    ]  # fmt: skip
    assert found["losses, DA-Transformer's time ÷ ours, the least"] == [
        "1×", "0.50×", "missed", "best alignment at 26 tokens",
    ]  # fmt: skip
    assert found["losses, DA-Transformer's memory ÷ ours, the least"][1:3] == ["1.00×", "met"]
    assert found["training, dag (likelihood): matrix throughput"] == [
        "35 %", "12 %", "missed", "the card works 15 of 60 ms, 10 of these in matrix products",
    ]  # fmt: skip
    assert gpu.aims_reading(run) == "Of 15 aims: 3 met, 6 missed, 6 not measured."
    # 60 ms are four times 15; 16,380 tokens in 120.4 ms are twice 68,000 a second.
    assert gpu.shares(run)[1][1] == ["dag (likelihood)", "–", "12", "48", "24"]
    assert gpu.shares_reading(run).endswith("Without waits for the host it would have 48 %.")
    assert gpu.losses_reading(run) == (
        "1 of 1 rows take longer than DA-Transformer's operations: the best alignment at 26 tokens"
        " (2.0 and 1.0 ms). None of 1 rows takes more memory than they do."
    )
    assert "not measured" in gpu.losses_reading(run_of(tmp_path, ROWS))


def test_memory_is_fitted_where_several_batches_were_measured(tmp_path):
    row = {
        "part": "training", "layers": "6+6", "system": "hrt", "peak_mib": 3000.0, "ms": 100.0,
        "tokens_a_second": 20000, "parameters": 2**26,
    }  # fmt: skip
    run = run_of(tmp_path, [row])
    assert gpu.memory_of(run, row) == (1280.0, 0.86, None)
    assert "computed, as 20 bytes" in gpu.memory_proof(run)
    row["peak_mib"] = 2000.0
    grown = {"1000": {"ms": 90.0, "peak_mib": 1500.0}, "4000": {"ms": 150.0, "peak_mib": 3010.0}}
    run = run_of(tmp_path, [row, {**row, "way": "other sizes", "by_tokens": grown}])
    assert gpu.peaks(run, row) == {1000: 1500.0, 2000: 2000.0, 4000: 3010.0}
    # The line through these points by least squares.
    assert gpu.memory_of(run, row) == pytest.approx((995, 0.503571, 2.142857), rel=1e-5)
    assert "of 1,000, 2,000 and 4,000 tokens, and are off by 2 MiB" in gpu.memory_proof(run)


def test_hours_of_larger_batches(tmp_path):
    grown = {"2028": {"ms": 30.0}, "16380": {"ms": 150.0}}
    run = run_of(
        tmp_path, [*ROWS, {**ROWS[-1], "way": "other sizes", "by_tokens": grown}]
    )  # fmt: skip
    # Four of them are an update: 600 ms.
    assert run.value("hours/Transformer/65536/16384") == pytest.approx(50.0)
    assert gpu.training(run)[1][0][-1] == "109,200"
    with pytest.raises(gpu.NotMeasured):
        run.value("hours/Transformer/65536/8192")


def test_parameters_are_those_of_the_model():
    from fairseq.data import Dictionary
    from fairseq.models.transformer import TransformerConfig, TransformerModelBase

    words = Dictionary()
    for number in range(60):
        words.add_symbol(str(number))
    config = TransformerConfig(share_all_embeddings=True)
    for side, layers in ((config.encoder, 2), (config.decoder, 1)):
        side.layers, side.embed_dim, side.ffn_embed_dim, side.attention_heads = layers, 16, 64, 2
    config.decoder.input_dim = config.decoder.output_dim = 16
    task = type("Task", (), {"source_dictionary": words, "target_dictionary": words})
    model = TransformerModelBase.build_model(config, task)
    found = sum(one.numel() for one in model.parameters())
    assert gpu.parameters("2+1", 16, len(words)) == found


def test_correctness_counts_what_differs_or_failed(tmp_path):
    equal = {"part": "correctness", "way": "float32", "sentences": 31, "equal": 31}
    rows = [
        {**equal, "system": "a"},
        {**equal, "system": "b", "equal": 30},
        {"part": "correctness", "way": "float32", "system": "c", "failed": "an error"},
        {**equal, "system": "d", "way": "float16"},
        {"part": "correctness", "way": "float16", "system": "e", "not_run": "no time left"},
    ]
    assert gpu.correctness(run_of(tmp_path, rows)) == (
        "In float32 1 of 3 searches translate all sentences alike, the others 30 of 31."
        " In float16 1 of 1 searches translates all sentences alike; not run: e."
    )
    rows[3]["not_run"] = "no time left"
    shown = gpu.correctness(run_of(tmp_path, rows))
    assert shown.endswith(" 30 of 31. In float16 not run: d, e.")
    assert "not measured" in gpu.correctness(run_of(tmp_path, rows[4:]))


def test_sentences_follow_the_figures(tmp_path):
    figures = Figures()
    figures.gpu = run_of(tmp_path, ROWS)
    line = [
        {"when": "a > 5", "text": "more than 5: {a:.1f}"},
        {"when": "a > 1", "text": "{a:.1f} and {b}"},
        {"text": "at batch size 1 {a:.1f}"},
    ]
    names = {
        "a": "gpu:times/dag greedy/Transformer greedy/captured@1",
        "b": "gpu:times/dag greedy/Transformer greedy/captured@128",
    }
    assert pages.alternative(line, names, figures) == "at batch size 1 4.0"
    assert pages.alternative(line[:2], names, figures) == ""
    names["b"] = "gpu:gpu"
    assert pages.alternative(line, names, figures) == "4.0 and A card"
    lines = [[{"text": "- " + "word " * 30}], [], line]
    text = pages.lines_text({"lines": lines, "values": names}, figures)
    assert text.splitlines()[1].startswith("  word") and max(map(len, text.splitlines())) <= 100


def test_a_claim_without_figures_was_not_run(tmp_path):
    figures = Figures()
    figures.gpu = run_of(tmp_path, ROWS)
    claim = {"found": "{a:.1f}", "yes": "a > 2", "missing": "Not here.",
             "values": {"a": "gpu:times/dag greedy/Transformer greedy/captured@1"}}  # fmt: skip
    assert pages.judged(claim, figures) == ("yes", "4.0")
    claim["values"]["a"] = "gpu:times/dag greedy/Transformer greedy/captured@128"
    assert pages.judged(claim, figures) == ("not run yet", "Not here.")


def test_the_picture_of_a_gpu_has_every_system(tmp_path):
    pages.draw_gpu(tmp_path / "picture.svg", FIGURES.gpu)
    drawn, published = (
        path.read_text(encoding="utf-8")
        for path in (tmp_path / "picture.svg", HERE / "gpu_speed.svg")
    )
    for label, name in gpu.SYSTEMS:
        measured = FIGURES.gpu.best(name, 1)[0] is not None
        assert (f">{label}<" in drawn) == (f">{label}<" in published) == measured
    assert drawn.count("<use ") == published.count("<use ")
