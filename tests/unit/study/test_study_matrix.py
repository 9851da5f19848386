"""examples/study: entries are known by their contents, and depend on what they refer to."""

from pathlib import Path

import pytest


def entry(name, **fields):
    return {"name": name, "kind": "command", "command": ["true"], "result": "x", **fields}


def resolved(study, *entries, **options):
    return {
        found.name: found
        for found in study.matrix.resolve({"entry": list(entries), "options": options})
    }


def test_names_and_guesses_do_not_change_an_entry(study):
    (one,) = resolved(study, entry("a")).values()
    (other,) = resolved(
        study, entry("b", minutes=9, threads=2, nice=3, alone=True, note="text")
    ).values()
    assert one.identity == other.identity
    assert (other.minutes, other.threads, other.nice, other.alone) == (9, 2, 3, True)


@pytest.mark.parametrize(
    "change",
    [{"command": ["false"]}, {"options": {"lr": 1}}, {"environment": {"A": "1"}}, {"result": "y"}],
)
def test_content_changes_an_entry(study, change):
    assert (
        resolved(study, entry("a"))["a"].identity
        != resolved(study, entry("a", **change))["a"].identity
    )


def test_a_parent_counts_by_its_content_not_by_its_name(study):
    def child(parent, **fields):
        found = resolved(
            study, entry(parent, **fields), entry("c", command=["cat", f"${{{parent}}}/x"])
        )
        return found["c"]

    assert child("a").identity == child("b").identity
    assert child("a").identity != child("a", command=["other"]).identity
    assert child("a").parents == ("a",)


def test_parents_come_first_and_otherwise_the_order_stays(study):
    found = resolved(
        study, entry("late", command=["$(early/best)"]), entry("middle"), entry("early")
    )
    assert list(found) == ["early", "late", "middle"]


def test_shared_options_are_merged_in_order_and_false_takes_one_away(study):
    found = resolved(
        study,
        entry("a", use=["one", "two"], options={"c": 3, "d": False}),
        one={"a": 1, "b": 1, "d": 1},
        two={"b": 2},
    )
    assert found["a"].fields["options"] == {"a": 1, "b": 2, "c": 3}


def test_like_takes_over_and_renames_also_what_comes_from_shared_tables(study):
    found = resolved(
        study,
        entry("at"), entry("at2", command=["two"]), entry("at3", command=["three"]),
        entry("student", use=["start"], options={"lr": 1}, command=["${at}/x"]),
        {"name": "student2", "like": "student", "rename": {"at": "at2"}, "options": {"seed": 2}},
        {"name": "student3", "like": "student2", "rename": {"at2": "at3"},
         "command": ["${at}/own"]},
        start={"from": "${at}/model.pt"},
    )  # fmt: skip
    assert found["student2"].fields["options"] == {"from": "${at2}/model.pt", "lr": 1, "seed": 2}
    assert found["student2"].fields["command"] == ["${at2}/x"] and found["student2"].parents == (
        "at2",
    )
    assert found["student3"].fields["options"]["from"] == "${at3}/model.pt"
    # What an entry says itself is meant as it stands.
    assert found["student3"].fields["command"] == ["${at}/own"]


def test_copies_refer_to_each_other(study):
    raw = {
        "entry": [entry("at", options={"seed": 1}),
                  entry("s", use=["start"], command=["$(at/x)", "${data}"]),
                  entry("data", kind="prepare", script="x")],
        "options": {"start": {"from": "${at}/model.pt"}},
        "copy": [{"suffix": "-2", "entries": ["s", "at"], "command": {"options": {"seed": 2}}}],
    }  # fmt: skip
    found = {own.name: own for own in study.matrix.resolve(raw)}
    assert found["s-2"].fields["command"] == ["$(at-2/x)", "${data}"] and found["s-2"].parents == (
        "at-2",
        "data",
    )
    assert found["s-2"].fields["options"] == {"from": "${at-2}/model.pt", "seed": 2} and found[
        "at-2"
    ].fields["options"] == {"seed": 2}
    assert list(found) == ["at", "data", "s", "at-2", "s-2"]
    unknown = {"suffix": "-2", "entries": ["x"]}
    for wrong, message in (
        ({"suffix": "", "entries": []}, "no suffix"),
        (unknown, "no entry 'x'"),
        (raw["copy"][0], "two entries"),
    ):
        with pytest.raises(ValueError, match=message):
            study.matrix.resolve({**raw, "copy": [*raw["copy"], wrong]})


@pytest.mark.parametrize(
    "entries, message",
    [
        ([entry("a"), entry("a")], "two entries are called 'a'"),
        ([entry("a b")], "entry name 'a b'"),
        ([entry("a", kind="x")], "unknown kind 'x'"),
        ([entry("a", command=["${b}"])], "refers to 'b'"),
        ([entry("a", use=["x"])], "no .options.x."),
        ([{"name": "a", "like": "b"}], "like='b' names no entry"),
        ([{"name": "a", "like": "b"}, {"name": "b", "like": "a"}], "like itself"),
        ([entry("a", command=["${b}"]), entry("b", command=["${a}"])], "a → b → a"),
        (
            [
                entry(
                    "a",
                    kind="train",
                    average=3,
                    options={"max-update": 250, "save-interval-updates": 100},
                )
            ],
            "averages 3 .* 100: 2",
        ),
    ],
)
def test_a_wrong_matrix_is_refused_by_name(study, entries, message):
    with pytest.raises(ValueError, match=message):
        study.matrix.resolve({"entry": entries})


def test_no_toml_is_said_with_the_name_of_the_file(study, tmp_path):
    (tmp_path / "matrix.toml").write_text("[[entry]\n")
    with pytest.raises(ValueError, match="matrix.toml is no TOML file"):
        study.matrix.read_matrix(tmp_path / "matrix.toml")


def test_flags(study):
    options = {"lr": 0.1, "share": True, "fp16": False, "grid": ["a", "b"], "betas": "-1"}
    assert study.steps.flags(options) == [
        "--lr=0.1",
        "--share",
        "--grid",
        "a",
        "--grid",
        "b",
        "--betas=-1",
    ]


def test_steps_of_a_training_name_all_its_options_and_the_average(study, tmp_path):
    fields = {
        "kind": "train",
        "data": "${d}/data-bin",
        "options": {"lr": 1, "max-update": 5},
        "average": 3,
    }
    found = resolved(study, entry("d"), {"name": "m", **fields})
    folders = {name: tmp_path / name for name in found}
    train, average = study.steps.steps_of(found["m"], folders)
    assert [Path(train.arguments[0]).name, train.arguments[1]] == [
        "fairseq-train",
        str(tmp_path / "d/data-bin"),
    ]
    assert {
        "--lr=1",
        "--max-update=5",
        "--keep-interval-updates=3",
        f"--save-dir={tmp_path}/m/checkpoints",
    } <= set(train.arguments)
    assert average.arguments[-6:] == [
        "--folder",
        f"{tmp_path}/m/checkpoints",
        "--last",
        "3",
        "--output",
        f"{tmp_path}/m/model.pt",
    ]


@pytest.mark.parametrize("precision", ["bfloat16", "float32"])
def test_a_training_is_in_the_precision_of_the_processor_and_the_same_entry(
    study, tmp_path, monkeypatch, precision
):
    monkeypatch.setenv("PRECISION", precision)
    (found,) = resolved(
        study, {"name": "m", "kind": "train", "data": "d", "options": {"lr": 1}}
    ).values()
    train, _ = study.steps.steps_of(found, {"m": tmp_path})
    assert ("--bf16" in train.arguments) == (precision == "bfloat16")


def test_texts_of_other_entries_are_filled_in(study, tmp_path):
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "best").write_text("lenpen=1.0\n")
    found = resolved(study, entry("t"), entry("b", command=["name=x,$(t/best)", "${out}/y"]))
    (step,) = study.steps.steps_of(found["b"], {"t": tmp_path / "t", "b": tmp_path / "b"})
    assert step.arguments == ["name=x,lenpen=1.0", f"{tmp_path}/b/y"]
    (tmp_path / "t" / "best").unlink()
    with pytest.raises(ValueError, match="cannot read .*best"):
        study.steps.steps_of(found["b"], {"t": tmp_path / "t", "b": tmp_path / "b"})
