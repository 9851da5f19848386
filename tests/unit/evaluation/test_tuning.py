"""Settings of a grid, chosen by a score, measured once."""

import json
from types import SimpleNamespace

import pytest
import torch
from tuned_systems import REFERENCES, StubSystem, prepare

from fairseq_hrt.evaluation import tuning
from fairseq_hrt.evaluation.systems import SystemSpec
from fairseq_hrt.evaluation.tuning import Trial, best_trial, markdown, parse_grid, title, to_json


def test_a_grid_is_a_product():
    assert parse_grid(["lenpen=0.6, 1.0", "--dag-decode-beta=2"]) == [
        {"lenpen": "0.6", "dag_decode_beta": "2"}, {"lenpen": "1.0", "dag_decode_beta": "2"},
    ]  # fmt: skip
    assert [title(options) for options in parse_grid(["a=1,2", "b=3,4"])] == [
        "a=1,b=3",
        "a=1,b=4",
        "a=2,b=3",
        "a=2,b=4",
    ]


@pytest.mark.parametrize(
    "texts, named",
    [
        ([], "nothing to tune"),
        (["lenpen"], "'lenpen': give an option and its values"),
        (["lenpen=1,,2"], "'lenpen=1,,2'"),
        (["=1"], "'=1'"),
        (["a=1,1"], "each value once"),
        (["a=1", "--a=2"], "'--a=2': a has values already"),
        (["num_shards=1,2"], "'num_shards=1,2': --num-shards has no effect here; leave it out"),
    ],
)
def test_wrong_grids_are_named(texts, named):
    with pytest.raises(ValueError, match=named):
        parse_grid(texts)


@pytest.fixture
def files(tmp_path, monkeypatch):
    return prepare(tmp_path, monkeypatch)


def run(files, grid=("words=3,6,5",), options=None, references=REFERENCES, cache=True):
    spec = SystemSpec("stub", str(files / "model.pt"), None, options or {})
    return tuning.tune(
        spec, [str(files / "data"), "--gen-subset", "valid"], parse_grid(grid),
        references=references, detokenize=str, batch_size=1,
        cache=files / "cache" if cache else None,
    )  # fmt: skip


def test_every_setting_is_scored_and_the_best_one_named(files):
    trials = run(files, cache=False)
    assert [trial.options for trial in trials] == [{"words": "3"}, {"words": "6"}, {"words": "5"}]
    assert trials[1].bleu == pytest.approx(100) and trials[1].length_ratio == 1
    assert trials[0].length_ratio == pytest.approx(6 / 11) and trials[0].bleu < trials[2].bleu < 100
    assert best_trial(trials, "bleu") is best_trial(trials, "chrf") is trials[1]
    table = markdown(trials, "bleu")
    assert "| 6 | 100.00 | 100.00 | 1.000 |" in table and table.count("best |") == 1
    assert table.endswith("best by BLEU: words=6\n")
    document = to_json(SystemSpec("stub", "p", None, {"beam": "1"}), trials, "chrf")
    assert (
        document["best"] == {"words": "6"}
        and document["metric"] == "chrf"
        and document["system"]["beam"] == "1"
    )
    assert [trial["length_ratio"] for trial in document["settings"]][1] == 1
    # Without reference lines the targets of the data are the references.
    assert run(files, cache=False, references=None)[1].bleu == pytest.approx(100)
    assert not (files / "cache").exists()


def test_what_a_setting_has_recorded_is_freed_before_the_next(files, monkeypatch):
    order, load = [], tuning.load_system
    monkeypatch.setattr(tuning, "load_system", lambda *given: order.append("load") or load(*given))
    monkeypatch.setattr(tuning, "free_dropped", lambda: order.append("free"))
    run(files, ("words=3,6",))
    assert order == ["load", "free"] * 2


def test_bleu_is_that_of_the_target_language(files, monkeypatch):
    """Signs of Chinese are counted, not what stands between spaces."""
    monkeypatch.setattr(StubSystem, "task", SimpleNamespace(cfg=SimpleNamespace(target_lang="zh")))
    monkeypatch.setattr(
        "tuned_systems.REFERENCES", ["一 个 人 自行 骑车 一个", "人 骑 车 个人 一人 行车"]
    )
    trial = run(files, cache=False, references=None)[0]
    assert trial.options == {"words": "3"} and trial.length_ratio == pytest.approx(3 / 9)


def test_the_metrics_may_disagree():
    trials = [
        Trial({"a": "1"}, 40.0, 50.0, 1.0, 1.0),
        Trial({"a": "2"}, 39.0, 51.0, 1.0, 1.0),
        Trial({"a": "3"}, 40.0, 51.0, 1.0, 1.0),
    ]
    assert best_trial(trials, "bleu").options == {"a": "1"} and best_trial(
        trials, "chrf"
    ).options == {"a": "2"}


def test_what_was_measured_is_not_measured_again(files):
    first = run(files, grid=["words=3,6"])
    assert len(StubSystem.loaded) == 2
    again = run(files)
    assert again[:2] == first and StubSystem.loaded[2:] == [{"words": "5"}]
    # A damaged file does not count as a result.
    stored = sorted((files / "cache").glob("*.json"))[0]
    stored.write_text(stored.read_text()[:-20])
    assert [trial.bleu for trial in run(files)] == [trial.bleu for trial in again] and len(
        StubSystem.loaded
    ) == 4
    for number, text in enumerate(
        (json.dumps({**json.loads(stored.read_text()), "bleu": "12.5"}), "[" * 100_000), start=5
    ):
        stored.write_text(text)
        assert [trial.bleu for trial in run(files)] == [trial.bleu for trial in again] and len(
            StubSystem.loaded
        ) == number
    assert not list((files / "cache").glob("*.partial"))


@pytest.mark.parametrize("change", ["model", "data", "references", "options", "device"])
def test_other_models_and_data_are_measured_anew(files, change, monkeypatch):
    run(files, grid=["words=3"])
    if change == "device":
        monkeypatch.setattr("torch.cuda.is_available", lambda: not torch.cuda.device_count())
    if change == "model":
        (files / "model.pt").write_bytes(b"retrained")
    if change == "data":
        (files / "data" / "valid.a-b.a.bin").write_bytes(b"others")
    references = ["x", "y"] if change == "references" else REFERENCES
    run(
        files,
        grid=["words=3"],
        references=references,
        options={"beam": "2"} if change == "options" else {},
    )
    assert len(StubSystem.loaded) == 2


def test_a_bundle_is_measured_anew_when_a_file_of_it_changes(files):
    (files / "model.pt").unlink()
    (files / "model.pt").mkdir()
    for content, loaded in (("one", 1), ("one", 1), ("another", 2)):
        (files / "model.pt" / "checkpoint.pt").write_text(content)
        run(files, grid=["words=3"])
        assert len(StubSystem.loaded) == loaded


def test_files_among_the_options_count_by_their_contents(files):
    judge = files / "judge.pt"
    for content, loaded in ((b"one", 1), (b"one", 1), (b"another", 2)):
        judge.write_bytes(content)
        run(files, grid=["words=3"], options={"rescore_path": str(judge)})
        assert len(StubSystem.loaded) == loaded


def test_an_option_in_both_places_is_refused(files):
    with pytest.raises(ValueError, match="words: given in --system and in --grid"):
        run(files, options={"words": "2"})


def test_what_is_swept_need_not_have_an_effect_in_every_setting(files, monkeypatch):
    specs = []

    def load(spec, data):
        specs.append(spec)
        return StubSystem(spec, data)

    monkeypatch.setattr(tuning, "load_system", load)
    run(files, grid=["words=3,6"], options={"beam": "4"}, cache=False)
    assert [spec.given for spec in specs] == [{"beam"}, {"beam"}]
