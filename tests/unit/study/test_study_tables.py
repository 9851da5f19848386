"""examples/study: tables hold what is finished, and say of the rest that it is missing."""

import shutil
from dataclasses import replace

import pytest


def test_figures_by_their_places(study, made):
    _, entries, store = made
    figures = study.figures.Figures(entries, store)
    assert figures.value("t/A/bleu") == 60.5 and figures.value("t/B/length_ratio") == 1.01
    # Batches of one and two sentences take 10 and 20 ms.
    assert figures.value("t/A/ms@1") == pytest.approx(15) and figures.value(
        "t/A/sentences@32"
    ) == pytest.approx(100)
    assert figures.value("t/A/calls@1") == 4 and figures.value("t/B/identical") == 30
    assert figures.value("t:results.json:systems.1.quality.chrf") == 50.25
    assert figures.value("m/minutes") == 3
    # 100 updates of 25 a pass, after 50 of the model it was made from.
    assert figures.value("m/epochs") == 6 and figures.minutes("m") == 6
    assert figures.value("later/A/bleu") is None and figures.value("later:results.json:x") is None
    for place, message in (("t/C/bleu", "no system 'C', but A, B"),
                           ("t/A/x", "unknown figure 'x'"), ("x/A/bleu", "no entry 'x'"),
                           ("t/A/ms@4", "not timed at batch size 4"),
                           ("t", "names no figure")):  # fmt: skip
        with pytest.raises(ValueError, match=message):
            figures.value(place)
    figures.outcome("t").systems[0]["identical"] = None
    with pytest.raises(
        ValueError, match="'t' compares with no system; give it the option identical-to"
    ):
        figures.value("t/A/identical")


def test_ratios_are_taken_within_repeats(study, system):
    """A machine that is slow for a while slows both systems of a repeat."""
    slow, fast = system("slow", 1.0, 10), system("fast", 1.0, 10)
    slow["timings"]["1"]["seconds"] = [[3.0], [40.0], [6.0]]
    fast["timings"]["1"]["seconds"] = [[1.0], [10.0], [4.0]]
    assert study.outcomes.speed_ratio(fast, slow, "1") == 3
    systems = study.outcomes.reduced({"systems": [slow, fast]}, "slow")
    assert [system["speeds"]["1"]["times"]["slow"] for system in systems] == [1, 3]
    assert (
        "times" not in study.outcomes.reduced({"systems": [slow, fast]}, "other")[1]["speeds"]["1"]
    )


def test_differences_have_a_sign(study):
    assert [study.tables.signed(value) for value in (-1, 0.206, 0.004, -0.004)] == [
        "−1.00",
        "+0.21",
        "0.00",
        "0.00",
    ]


def test_the_main_table(study, made):
    raw, entries, store = made
    figures = study.figures.Figures(entries, store, reference="B")
    paths = study.tables.write_tables(raw, {}, figures, store.folder / "tables")
    assert [path.name for path in paths] == [
        "main.md",
        "late.md",
        "tuned.md",
        "trained.md",
        "claims.md",
        "report.md",
    ]
    at, student, other = paths[0].read_text().split("\n")[2:5]
    assert (
        at == r"| AT | 60.50 |  | 80.50 | 1.010 |  | 15.00 | 100 | 2.00 / 2.00 | 6.0 | 6 | 27.3 \|"
        r" 26.8 |"
    )
    assert student.startswith("| student | 30.25 | −30.25 (p = 0.0") and "1.00 / 1.00" in student
    assert "| 30.25 ± 0.00 (30.25, 30.25, not run yet) |" in student
    assert other == "| other | not run yet |  |  |  |  |  |  |  | 2.0 | 3 |  |"
    assert "BLEU `b`, chrF `c`" in paths[0].read_text()
    # What has nothing to show yet is no part of the report.
    assert [line for line in paths[-1].read_text().split("\n") if line.startswith("## ")] == [
        "## First",
        "## tuned",
        "## trained",
    ]
    trained = paths[3].read_text()
    assert (
        "| start | finished | 50 | 2.0 | 3 | 1 | 2 | P, 2 cores, 2 threads | cccccccccc+ |"
        in trained
    )
    assert "Commit +: the last start found files of the repository changed" in trained


def test_the_bootstrap_is_sacrebleus_and_always_the_same(study, lines):
    test, good, bad, references = (
        study.tables.paired_bootstrap,
        lines.good,
        lines.bad,
        lines.references,
    )
    similar = [good[0] + " ja", *good[1:-1], good[-1].replace("hund", "ball")]
    assert (
        test(good, bad, references, 200)
        < 0.05
        < test(good, similar, references, 200)
        <= test(good, good, references, 200)
        == 1
    )
    assert test(good, bad, references, 100) == test(good, bad, references, 100)


@pytest.mark.parametrize("row, message", [
    ({"x": 1}, "unknown key 'x'"), ({}, "test"),
    ({"test": "t", "system": 3}, "system = 3 is no text"),
    ({"test": "t", "system": "s", "table": "../a"}, "table = '../a'"),
    ({"test": "t", "system": "s", "table": "claims"}, "none of analyses, tuned"),
])  # fmt: skip
def test_a_wrong_row_is_refused(study, row, message):
    with pytest.raises(ValueError, match=message):
        study.tables.read_rows({"row": [{"table": "main", "label": "AT", **row}]})
    twice = {"table": "a", "label": "b", "test": "t", "system": "s"}
    with pytest.raises(ValueError, match="two rows 'b'"):
        study.tables.read_rows({"row": [twice, twice]})


def test_a_table_like_another(study):
    row = {
        "table": "main",
        "label": "AT",
        "test": "test-at",
        "system": "A",
        "model": "at",
        "speed": "speed/A",
    }
    more = {"name": "second", "like": "main", "suffix": "-2", "seeds": ["-seed2"]}
    _, second = study.tables.read_rows({"row": [row], "table": [more]})
    assert (second.table, second.label, second.test, second.model, second.speed) == (
        "second",
        "AT",
        "test-at-2",
        "at-2",
        "",
    )
    assert second.seeds == ["test-at-2-seed2"]
    for wrong, message in (
        ({"like": "x"}, "like='x' is no table"),
        ({"suffix": None}, "no 'suffix'"),
    ):
        table = {key: value for key, value in {**more, **wrong}.items() if value is not None}
        with pytest.raises(ValueError, match=message):
            study.tables.read_rows({"row": [row], "table": [table]})


def test_other_seeds_of_a_table(study):
    row = {"table": "main", "label": "AT", "test": "test-at", "system": "A"}
    alone = {"table": "main", "label": "NAT", "test": "test-nat", "system": "N"}
    raw = {
        "entry": [{"name": "test-at"}, {"name": "test-nat"}],
        "copy": [
            {"suffix": "-seed2", "entries": ["test-at"]},
            {"suffix": "-fr", "entries": ["test-at"]},
        ],
        "row": [
            row,
            alone,
            {**row, "table": "other"},
            {**row, "label": "AT again", "seeds": ["test-nat"]},
        ],
        "table": [{"name": "main", "seeds": ["-seed2", "-seed3"]}],
    }
    found = study.tables.read_rows(raw)
    assert [own.seeds for own in found] == [["test-at-seed2"], [], (), ["test-nat"]]


def test_what_is_not_finished_is_only_listed(study):
    text = "\n".join([
        "Before.", "",
        "| System | BLEU | seeds | ms |", "| --- | ---: | ---: | ---: |",
        "| A \\| B | 3.10 | not run yet | 2 |", "| C | not run yet |  |  |",
        "| D. | not run yet |  |  |", "| E | 4.00 | not run yet |  |", "",
        "| Claim | where | ours | verdict | by |", "|---|---|---:|---:|---|",
        "| good | HRT | 1 | **yes** | t |", "| good. | DAG | not run yet | **not run yet** | u |",
        "", "After.", "",
    ])  # fmt: skip
    assert study.tables.finished_rows(text) == "\n".join([
        "Before.", "",
        "| System | BLEU | ms |", "| --- | ---: | ---: |", "| A \\| B | 3.10 | 2 |",
        "| E | 4.00 |  |", "", "Not run yet:", "", "- C", "- D.", "",
        "| Claim | where | ours | verdict | by |", "| --- | --- | ---: | ---: | --- |",
        "| good | HRT | 1 | **yes** | t |", "", "Not run yet:", "", "- good (DAG): u", "",
        "After.", "",
    ])  # fmt: skip


def test_what_is_no_table_stays_as_it_is(study):
    for text in (
        "|x| is the norm of x",
        "| a |\n| --- |\n| 1 |",
        "| a | b |\n| --- | --- |\n| 1 |",
    ):
        assert study.tables.finished_rows(text) == text


def test_machines_are_named(study, made):
    raw, entries, store = made
    later = {entry.name: entry for entry in entries}["later"]
    rows = study.tables.read_rows(raw)

    def machines(rows):
        text = study.tables.MainTable(rows, study.figures.Figures(entries, store)).text()
        return [line.strip() for line in text.splitlines() if line.startswith("Machine")]

    shutil.copytree(store.path({entry.name: entry for entry in entries}["t"]), store.path(later))
    record = store.record(later)
    assert machines(rows) == ["Machine: P."]
    assert machines([row for row in rows if row.test == "none"]) == []
    record["attempts"][-1]["processor"] = "Q"
    store.write(later, record)
    assert machines(rows) == [
        "Machine: P; on Q: AT · other; a seed on Q: student. Times of different machines do not"
        " compare."
    ]
    timed = [
        replace(row, speed="later/B") if row.label == "student" else replace(row, speed="")
        for row in rows
        if row.table == "main"
    ]
    assert machines(timed) == [
        "Machine: P; on Q: other; a seed on Q: student; speed on Q: student. Times of different"
        " machines do not compare."
    ]


def test_a_budget_is_not_guessed(study, made):
    """Neither where a start is not finished, nor where what was trained before is not known."""
    _, entries, store = made
    by_name = {entry.name: entry for entry in entries}
    store.write(by_name["start"], {"state": "running"})
    figures = study.figures.Figures(entries, store)
    assert (
        figures.epochs("m") is None
        and figures.minutes("m") is None
        and figures.epochs("moved") is None
    )


@pytest.mark.parametrize("file, content", [
    ("results.json", "{}"), ("results.json", "[]"), ("results.json", "{"),
    ("record.json", '{"state": "finished", "attempts": [{}]}'),
])  # fmt: skip
def test_a_folder_that_is_broken_is_named(study, made, file, content):
    _, entries, store = made
    (store.path({entry.name: entry for entry in entries}["t"]) / file).write_text(content)
    with pytest.raises(
        ValueError,
        match="'t' is finished, but what it left in .* cannot be used .*; remove that folder",
    ):
        study.figures.Figures(entries, store).value("t/A/bleu")


def test_analyses_with_their_pictures(study, made):
    raw, entries, store = made
    raw["analysis"] = [
        {
            "entry": "t",
            "title": "Speed (Figure 1)",
            "table": "table.md",
            "paper": "twice as fast",
            "note": "not here",
            "picture": "speed.png",
        },
        {"entry": "later", "title": "Others", "table": "table.md"},
    ]
    folder = store.path({entry.name: entry for entry in entries}["t"])
    (folder / "table.md").write_text(
        "| System | BLEU |\n| --- | ---: |\n| A | 1 |\n\nDecoding:\n\n* A: `path:/here`\n\nBLEU:"
        " `b`\n\nMachine: P\n"
    )
    (folder / "speed.png").write_bytes(b"picture")
    figures = study.figures.Figures(entries, store)
    paths = {
        path.name: path
        for path in study.tables.write_tables(raw, {}, figures, store.folder / "tables")
    }
    text = paths["analyses.md"].read_text()
    assert (
        text == "### Speed (Figure 1)\n\nEntry `t`. The paper: twice as fast. Here: not here.\n\n|"
        " System | BLEU |\n| --- | ---: |\n| A | 1 |\n\nBLEU: `b`\n\nMachine: P\n\n![Speed"
        " (Figure 1)](t-speed.png)\n\nNot run yet:\n\n- Others: `later`\n"
    )
    assert (store.folder / "tables" / "t-speed.png").read_bytes() == b"picture"
    assert "## analyses" in paths["report.md"].read_text()
    for wrong, message in (
        ({"title": "x"}, "required"),
        ({"entry": "none"}, "no entry 'none'"),
        ({"picture": "../x"}, "no file in"),
        ({"table": ""}, "no file in"),
        ({"table": 5}, "table = 5 is no text"),
        ({"more": 1}, "more"),
    ):
        analysis = (
            {"title": "x"}
            if "title" in wrong
            else {"entry": "t", "title": "x", "table": "table.md", **wrong}
        )
        with pytest.raises(ValueError, match=message):
            study.tables.write_tables(
                {**raw, "analysis": [analysis]}, {}, figures, store.folder / "tables"
            )
    with pytest.raises(ValueError, match="under \\[\\[analysis"):
        study.tables.write_tables(
            {**raw, "analysis": analysis}, {}, figures, store.folder / "tables"
        )


def claim(**fields):
    return {
        "paper": "HRT",
        "place": "Table 2",
        "says": "good",
        "theirs": "28.49",
        "experiment": "t",
        **fields,
    }


def test_claims(study, made):
    _, entries, store = made
    values = {"a": "t/A/bleu", "b": "t/B/bleu"}
    shows = "{a:.1f} against {b:.1f}"
    limits = {"only_if": "b > 30", "unless": "half is enough"}
    text = study.claims.claims_table({"claim": [
        claim(values=values, ours=shows, yes="a >= b - 0.3"),
        claim(values=values, ours=shows, yes="b >= a"),
        claim(values=values, ours=shows, yes="b >= a", **limits),
        claim(values={"a": "later/A/bleu"}, ours="{a}", yes="a > 0"),
        claim(ours="measured elsewhere", verdict="yes"),
        claim(),
        claim(values=values, ours=shows, verdict="only if judged by hand"),
        claim(values={"a": "later/A/bleu"}, ours="{a}", verdict="yes"),
        claim(values=values, ours=shows, only_if="a > 1", unless="it may never be yes"),
    ]}, study.figures.Figures(entries, store))  # fmt: skip
    verdicts = [line.split(" | ")[4] for line in text.split("\n")[2:11]]
    later = "**not run yet**"
    assert verdicts == [
        "**yes**", "**no**", "**only if half is enough**", later, "**yes**", later,
        "**only if judged by hand**", later, "**only if it may never be yes**",
    ]  # fmt: skip
    assert text.count("60.5 against 30.2") == 5 and text.endswith(
        "9 claims: 2 yes, 3 only if, 3 not run yet, 1 no.\n"
    )


@pytest.mark.parametrize("fields, message", [
    ({"values": {"a": "t/C/bleu"}, "ours": "", "yes": "a > 1"}, "no system 'C'"),
    ({"values": {"a": "t/A/bleu"}, "yes": "a > 1"}, "it has values and no ours"),
    ({"values": {"a": "t/A/bleu"}, "ours": "", "only_if": "a > 1"}, "it has only_if and no unless"),
    ({"values": {"a": "t/A/bleu"}, "ours": "{a}"},
     "it has values and nothing that judges them; give yes"),
    ({"values": {"a": "later/A/blue"}, "ours": "", "yes": "a > 1"}, "unknown figure 'blue'"),
    ({"values": {"a": "t/A/bleu"}, "ours": "", "yes": "__import__('os')"}, "not allowed"),
    ({"values": {"a": "t/A/bleu"}, "ours": "", "yes": "b > 1"}, "not allowed"),
    ({"values": {"a": "t/A/bleu"}, "ours": "{b}", "yes": "a > 1"}, "shows {b}, which is none of a"),
    ({"values": {"a": "t/A/bleu"}, "ours": "{a.real}", "yes": "a > 1"}, "shows {a.real}"),
    ({"values": {"a": "t/A/bleu"}, "ours": "", "yes": "a / 0 > 1"}, "division by zero"),
    ({"values": {"a": "t:results.json:systems.9"}, "ours": "", "yes": "a > 1"},
     "no number 'systems.9' in its results.json"),
    ({"values": {"a": "t:results.json:systems.0.name"}, "ours": "", "yes": "a > 1"},
     "no number 'systems.0.name'"),
    ({"values": {"a": "t:../x.json:b"}, "ours": "", "yes": "a > 1"},
     "'../x.json' is no file in the folder of 't'"),
    ({"values": {"a": 3}}, "no table of texts"), ({"ours": 3}, "ours = 3 is no text"),
    ({"values": {"a": "t/A/bleu"}, "ours": "", "yes": "a >"}, "no expression"),
])  # fmt: skip
def test_a_wrong_claim_is_refused_by_name(study, made, fields, message):
    _, entries, store = made
    with pytest.raises(ValueError, match=f"claim 'good': .*{message}"):
        study.claims.claims_table(
            {"claim": [claim(**fields)]}, study.figures.Figures(entries, store)
        )


def test_conditions(study):
    values = {"a": 2.0, "b": 3.0}
    for expression, expected in (
        ("a < b <= 3", True),
        ("a - b > 0 or a * b == 6", True),
        ("a / b > 1 and b > 0", False),
        ("-a < 0", True),
    ):
        assert study.figures.evaluate(expression, values) is expected


def test_the_matrix_of_the_study_is_sound(study):
    raw = study.matrix.read_toml(study.folder / "matrix.toml")
    entries = study.matrix.resolve(raw)
    assert len({entry.identity for entry in entries}) == len(entries)
    names = {entry.name: entry for entry in entries}
    rows = study.tables.read_rows(raw)
    for row in rows:
        assert row.model in names
        measured = [(test, row.system) for test in (row.test, *row.seeds)] + (
            [tuple(row.speed.split("/", 1))] if row.speed else []
        )
        for test, system in measured:
            assert any(f"name={system}," in text for text in names[test].fields["systems"]), row
        assert not row.against or any(
            other.label == row.against and other.table == row.table for other in rows
        )


def test_every_training_of_the_matrix_is_accepted_by_fairseq(study, tmp_path):
    from fairseq import options

    entries = study.matrix.read_matrix(study.folder / "matrix.toml")
    folders = {entry.name: tmp_path / entry.name for entry in entries}
    for entry in entries:
        if entry.kind != "train":
            continue
        _, *train = study.steps.steps_of(entry, folders)[0].arguments
        options.parse_args_and_arch(options.get_training_parser(), train)
        # A schedule that ends elsewhere than the training is a slip of the pen.
        own = entry.fields["options"]
        # The average has to take in the end of the schedule; the search compares last states.
        assert own["max-update"] % own["save-interval-updates"] == 0 or entry.name.startswith(
            "search"
        ), entry.name
        assert (
            own["lr-scheduler"] == "inverse_sqrt" or own["total-num-update"] == own["max-update"]
        ), entry.name


def test_every_system_of_the_matrix_can_be_read(study):
    from fairseq_hrt.systems import parse_system

    for entry in study.matrix.read_matrix(study.folder / "matrix.toml"):
        for text in [
            *entry.fields.get("systems", []),
            *([entry.fields["system"]] if "system" in entry.fields else []),
        ]:
            parse_system(study.matrix.TEXT.sub("lenpen=1.0", text))
