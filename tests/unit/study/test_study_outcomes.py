"""examples/study: what is published makes the tables again, without what was trained."""

import json
import shutil
import threading
from dataclasses import replace
from types import SimpleNamespace

import pytest

PAGE = (
    "By hand.\n\n<!-- report:begin -->\nold\n<!-- report:end -->\n\n<!-- other:begin"
    " -->\nkept\n<!-- other:end -->\n"
)


@pytest.fixture
def published(study, made, tmp_path, monkeypatch):
    """A study with an analysis, a claim and a page, none of it published yet."""
    raw, entries, store = made
    tuned = {
        "name": "best",
        "kind": "tune",
        "data": "d",
        "system": "name=A,path=x",
        "grid": ["beam=1"],
    }
    raw["entry"].append(tuned)
    entries = study.matrix.resolve(raw)
    names = {entry.name: entry for entry in entries}
    (
        store.write(names["best"], {"state": "finished", "attempts": []})
        if store.prepare(names["best"])
        else None
    )
    (store.path(names["best"]) / "tuned.md").write_text(
        "| beam | BLEU |\n| --- | ---: |\n| 1 | 3.21 |\n"
    )
    (store.path(names["t"]) / "table.md").write_text(
        "| System | BLEU |\n| --- | ---: |\n| A | 1 |\n\nDecoding:\n\n* A: `path:/here`\n\nEnd.\n"
    )
    (store.path(names["t"]) / "speed.png").write_bytes(b"picture")
    raw["analysis"] = [
        {"entry": "t", "title": "Speed", "table": "table.md", "picture": "speed.png"}
    ]
    claim = {
        "paper": "P",
        "place": "1",
        "says": "good",
        "theirs": "2",
        "experiment": "t",
        "ours": "{a:.1f}",
        "yes": "a > 50",
    }
    claims = {"claim": [{**claim, "values": {"a": "t:results.json:systems.0.quality.bleu"}}]}
    folder = tmp_path / "published"
    folder.mkdir()
    (folder / "page.md").write_text(PAGE)
    (folder / "outcomes.jsonl").touch()
    monkeypatch.setattr(
        study.command, "read_toml", lambda name: claims if name.name == "claims" else raw
    )

    def publish(store=store, pages=("page.md",)):
        options = SimpleNamespace(matrix=folder / "matrix", claims=folder / "claims",
                                  outcomes=folder / "outcomes.jsonl", published=True,
                                  pages=[folder / page for page in pages])  # fmt: skip
        own = study.matrix.resolve(raw)
        study.command.publish(options, own, store)
        return study.outcomes.read_outcomes(folder / "outcomes.jsonl")

    return SimpleNamespace(
        raw=raw,
        claims=claims,
        entries=entries,
        names=names,
        store=store,
        folder=folder,
        publish=publish,
    )


def figures_of(study, own, store=None, known=None):
    return study.figures.Figures(
        study.matrix.resolve(own.raw), store or own.store, known, "B", own.folder
    )


def test_tables_are_the_same_without_the_store(study, published, tmp_path, capsys):
    own, folder = published, published.folder
    known = own.publish()
    assert "new: start, moved, m, data, t, best" in capsys.readouterr().out
    page = (folder / "page.md").read_text()
    assert page.startswith("By hand.\n\n<!-- report:begin -->\n## First\n") and page.endswith(
        PAGE[PAGE.index("\n\n<!-- other") :]
    )
    assert (
        "| student | 30.25 | −30.25 (p = 0.0" in page
        and "![Speed](t-speed.png)" in page
        and "/here" not in page
        and "3.21" in page
    )
    assert (folder / "t-speed.png").read_bytes() == b"picture"
    (tmp_path / "own").mkdir()
    expected = study.tables.make_texts(
        own.raw, own.claims, figures_of(study, own), tmp_path / "own"
    )
    empty = study.store.Store(tmp_path / "nothing")
    again = figures_of(study, own, empty, known)
    assert (
        study.tables.make_texts(own.raw, own.claims, again, folder) == expected
        and "60.5" in expected["claims"]
    )
    # Nothing is lost where nothing is finished.
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    own.publish(empty)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert "of which new: none" in capsys.readouterr().out


def test_the_command_takes_published_outcomes(study, published, tmp_path, capsys):
    """``tables --published`` has what is published; ``tables`` what is here."""
    published.publish()
    (published.folder / "claims").touch()
    (published.folder / "matrix").touch()
    common = ["--out", str(tmp_path / "nothing"), "--outcomes",
              str(published.folder / "outcomes.jsonl"), "--claims",
              str(published.folder / "claims"), "--matrix",
              str(published.folder / "matrix")]  # fmt: skip
    study.command.MatrixFile.__init__, before = (
        lambda self, *_: setattr(self, "every", published.entries) or setattr(self, "entries", []),
        study.command.MatrixFile.__init__,
    )
    try:
        for options, found in (([], False), (["--published"], True)):
            assert study.command.main(["tables", *common, *options]) == 0
            assert ("60.50" in (tmp_path / "nothing/tables/main.md").read_text()) is found
        (published.folder / "outcomes.jsonl").unlink()
        assert (
            study.command.main(["publish", *common, "--pages", str(published.folder / "page.md")])
            == 2
        )
        assert "make it empty first: touch" in capsys.readouterr().err
    finally:
        study.command.MatrixFile.__init__ = before


def test_what_runs_here_is_not_published(study, published):
    published.store.write(published.names["m"], {"state": "running", "attempts": []})
    published.publish()
    assert "running" not in (published.folder / "page.md").read_text()


def test_numbers_are_published_as_they_are_read_again(study, published):
    record = published.store.record(published.names["m"])
    record["attempts"][0]["seconds"] = 0.123456789
    published.store.write(published.names["m"], record)
    known = published.publish()
    assert known[published.names["m"].identity].seconds == 90.1235


def test_another_run_of_the_same_options_changes_nothing(study, published):
    """A second run of published options stays here, and nothing new is compared with it."""
    own, t = published, published.names["t"]
    known = own.publish()
    results = json.loads((own.store.path(t) / "results.json").read_text())
    results["systems"][0]["quality"]["bleu"] = 99.0
    (own.store.path(t) / "results.json").write_text(json.dumps(results))
    (own.store.path(t) / "speed.png").write_bytes(b"another")
    figures = figures_of(study, own, known=known)
    assert figures.value("t/A/bleu") == 60.5 and figures.translations("t", "A") is None
    shutil.copytree(own.store.path(t), own.store.path(own.names["later"]))
    again = own.publish()
    assert (
        again[t.identity] == known[t.identity]
        and (own.folder / "t-speed.png").read_bytes() == b"picture"
    )
    # "other", of this run, is not compared with "AT", of the published one: only the difference is
    # shown.
    assert again[own.names["later"].identity].p == {}
    (row,) = [
        line
        for line in (own.folder / "page.md").read_text().split("\n")
        if line.startswith("| other")
    ]
    assert "| +38.50 |" in row and row.count("p = ") == 0


def test_what_was_published_gets_what_it_lacked(study, published):
    """A new claim, an analysis, a picture, and the comparison with what was finished later, where
    the same measurement lies."""
    own, t = published, published.names["t"]
    own.claims["claim"], analyses = [], own.raw.pop("analysis")
    store_later = own.store.path(own.names["later"])
    own.raw["row"].append(
        {"table": "main", "label": "B again", "test": "t", "system": "B", "against": "other"}
    )
    first = own.publish()
    assert "B against " + own.names["later"].identity + "/A" not in first[t.identity].p
    shutil.copytree(own.store.path(t), store_later)
    own.raw["analysis"] = analyses
    own.claims["claim"] = [{"paper": "P", "place": "1", "says": "s", "theirs": "2",
                            "experiment": "t", "ours": "{a}", "yes": "a > 50",
                            "values": {"a": "t:results.json:systems.1.quality.chrf"}}]  # fmt: skip
    second = own.publish()[t.identity]
    assert (
        second.values == {"results.json:systems.1.quality.chrf": 50.25}
        and "| A | 1 |" in second.texts["table.md"]
    )
    assert (
        second.p["B against " + own.names["later"].identity + "/A"] < 0.05
        and (own.folder / "t-speed.png").exists()
    )
    # Where the folder is gone, what was never published is missing, and the rest is not held up.
    own.claims["claim"][0]["values"]["a"] = "t:results.json:systems.0.quality.chrf"
    empty = study.store.Store(own.folder / "nothing")
    texts = study.tables.make_texts(
        own.raw, own.claims, figures_of(study, own, empty, own.publish(empty)), own.folder
    )
    assert "1 not run yet" in texts["claims"] and "60.50" in texts["main"]


def test_names_change_nothing(study, published):
    """An entry is known by its content: renamed, it keeps its p and its picture."""
    own = published
    own.publish()
    before = (own.folder / "page.md").read_text()
    for table in (*own.raw["entry"], *own.raw["row"], *own.raw["analysis"]):
        for key in ("name", "test", "like", "entry"):
            if table.get(key) == "t":
                table[key] = "renamed"
        if "seeds" in table:
            table["seeds"] = ["renamed", "later"]
        table.update(
            {key: table[key].replace("t/", "renamed/") for key in ("speed",) if key in table}
        )
    own.claims["claim"][0]["values"]["a"] = own.claims["claim"][0]["values"]["a"].replace(
        "t:", "renamed:"
    )
    own.publish(study.store.Store(own.folder / "nothing"))
    assert (own.folder / "page.md").read_text() == before.replace(
        "`t`", "`renamed`"
    ) and "p = 0.0" in before


def test_two_names_of_one_content_are_one_outcome(study, published):
    published.raw["entry"].append({"name": "twin", "like": "t"})
    known = published.publish()
    assert len(known) == 6 and "| A | 1 |" in known[published.names["t"].identity].texts["table.md"]
    assert published.publish() == known


def test_an_outcome_of_other_options_is_kept(study, published, caplog):
    published.publish()
    lines = (published.folder / "outcomes.jsonl").read_text().splitlines()
    published.raw["entry"][4]["options"] = {"references": "${data}/test", "seed": 2}
    published.raw["row"], published.raw["analysis"], published.claims["claim"] = [], [], []
    published.publish(study.store.Store(published.folder / "nothing"))
    assert "the content of 't'" in caplog.text
    assert sorted((published.folder / "outcomes.jsonl").read_text().splitlines()) == sorted(lines)


GOOD = {"identity": "a", "name": "b"}


@pytest.mark.parametrize("content, message", [
    ("{", "line 2 is no outcome"), ("[]", "it is '\\[\\]', but must be a table"),
    ('{"identity": "a"}', "name is missing"), ({**GOOD, "code": "c"}, "unknown key 'code'"),
    ({**GOOD, "identity": []}, "identity is '\\[\\]', but must be one line of text"),
    ({**GOOD, "seconds": "x"}, "seconds is 'x', but must be a finite number"),
    ({**GOOD, "starts": True}, "starts is 'True'"),
    ({**GOOD, "seconds": float("nan")}, "NaN is no finite number"),
    ('{"identity": "a", "name": "b", "seconds": 1e999}', "seconds is 'inf'"),
    ({**GOOD, "seconds": 10**400}, "finite number"),
    ({**GOOD, "systems": [{}]}, "systems.0.name is missing"),
    ({**GOOD, "systems": None}, "systems is 'None', but must be a list"),
    ({**GOOD, "systems": [{"name": "x", "quality": {"bleu": "y"}}]},
     "systems.0.quality.bleu is 'y'"),
     ({**GOOD, "systems": [{"name": "x", "quality": {"bleu": 1}, "speeds": {"1": 5}}]},
      "systems.0.speeds.1 is '5'"),
      ({**GOOD, "texts": {"tuned.md": 5}}, "texts.tuned.md is '5', but must be text"),
      ({**GOOD, "p": {"x": []}}, "p.x is"), ({**GOOD, "commit": "x\ny"}, "commit is .* one line"),
      ({**GOOD, "identity": "first"}, "lines 1 and 2 are of one entry"),
      ("[" * 100_000, "recursion"), (b"\xff", "utf-8"),
])  # fmt: skip
def test_a_wrong_line_is_named(study, tmp_path, content, message):
    path = tmp_path / "outcomes.jsonl"
    line = content if isinstance(content, (str, bytes)) else json.dumps(content)
    path.write_bytes(
        b'{"identity": "first", "name": "b"}\n'
        + (line if isinstance(line, bytes) else line.encode())
        + b"\n"
    )
    with pytest.raises(ValueError, match=message) as caught:
        study.outcomes.read_outcomes(path)
    assert str(path) in str(caught.value)


def test_lines_are_read_as_they_were_written(study, tmp_path):
    """Whatever characters a text has, and numbers that may be missing."""
    outcome = study.outcomes.Outcome("i", "n", 1.5, texts={"a": "x\u2028y\u0085z\r\n\"–"},
                                     epochs=None,
                                     systems=[{"name": "s", "quality": {"bleu": 1.0},
                                               "identical": None,
                                               "speeds": {"1": {"calls": None,
                                        "times": {"B": 2.0}}}}])  # fmt: skip
    path = tmp_path / "outcomes.jsonl"
    path.write_text(study.outcomes.lines_of([outcome, replace(outcome, identity="j")]))
    assert study.outcomes.read_outcomes(path) == {"i": outcome, "j": replace(outcome, identity="j")}


def test_what_could_not_be_read_is_not_written(study, published):
    record = published.store.record(published.names["m"])
    record["attempts"][-1]["processor"] = "two\nlines"
    published.store.write(published.names["m"], record)
    with pytest.raises(ValueError, match="outcome of 'm' cannot be published: processor is 'two"):
        published.publish()
    assert (published.folder / "outcomes.jsonl").read_bytes() == b"" and (
        published.folder / "page.md"
    ).read_text() == PAGE


@pytest.mark.parametrize("page, message", [
    ("<!-- other:begin -->\n<!-- other:end -->\n", "no part between"),
    ("<!-- report:begin -->\nby hand\n", "line 1: 'report' is begun and never ended"),
    ("<!-- report:begin -->\na\n\nby hand\n<!-- report:begin -->\n<!-- report:end -->\n",
     "line 5.*the end of 'report', begun in line 1"),
    ("<!-- report:end -->\n<!-- report:begin -->\n", "line 1.*nothing such is begun"),
    ("<!-- main:begin -->\n<!-- report:begin -->\n<!-- report:end -->\n<!-- main:end -->\n",
     "line 2.*the end of 'main'"),
    ("<!-- main:begin -->\n<!-- main:end -->\n" * 2, "line 3.*'main' is marked twice"),
    ("text <!-- report:begin -->\n<!-- report:end -->\n", "line 1.*a line of its own"),
    (b"\xff", "no text in UTF-8"),
])  # fmt: skip
def test_no_file_is_changed_if_a_page_is_wrong(study, published, page, message):
    (published.folder / "second.md").write_bytes(page if isinstance(page, bytes) else page.encode())
    before = {path.name: path.read_bytes() for path in published.folder.iterdir()}
    with pytest.raises(ValueError, match=message):
        published.publish(pages=("page.md", "second.md"))
    assert {path.name: path.read_bytes() for path in published.folder.iterdir()} == before


def test_texts_hold_no_markers_and_line_ends_stay(study):
    text = study.publish.page_text(
        "a\r\n<!-- x:begin -->\r\n<!-- x:end -->\r\nb\r\n", {"x": "1\n<!-- x:end -->\n2"}, "page"
    )
    assert text == "a\r\n<!-- x:begin -->\r\n1\r\n&lt;!-- x:end -->\r\n2\r\n<!-- x:end -->\r\nb\r\n"


def test_files_are_replaced_together_or_not_at_all(study, tmp_path, monkeypatch):
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_text("old")
    first.chmod(0o640)
    study.publish.replace_all({first: b"new", second: b"more"})
    assert (first.read_text(), second.read_text(), first.stat().st_mode & 0o777) == (
        "new",
        "more",
        0o640,
    )

    def full(number):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(study.publish.os, "fsync", full)
    with pytest.raises(
        OSError, match="cannot write .*first: No space left on device; nothing is changed"
    ):
        study.publish.replace_all({first: b"newer", second: b"most"})
    assert first.read_text() == "new" and sorted(path.name for path in tmp_path.iterdir()) == [
        "first",
        "second",
    ]


def test_two_do_not_publish_at_once(study, published):
    """What another process publishes meanwhile is read, and so kept."""
    other = study.outcomes.Outcome("another", "other", begin="2026-01-01T00:00:00Z")
    thread = threading.Thread(target=published.publish, daemon=True)
    with study.publish.locked(published.folder):
        thread.start()
        thread.join(0.5)
        assert thread.is_alive()
        (published.folder / "outcomes.jsonl").write_text(study.outcomes.lines_of([other]))
    thread.join(60)
    known = study.outcomes.read_outcomes(published.folder / "outcomes.jsonl")
    assert "another" in known and len(known) > 1


def test_what_a_link_points_to_is_not_written(study, published, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (published.folder / "t-speed.png").symlink_to(victim)
    published.publish()
    assert (
        victim.read_text() == "mine"
        and (published.folder / "t-speed.png").read_bytes() == b"picture"
    )


def test_a_missing_picture_stops_no_table(study, published, caplog):
    (published.store.path(published.names["t"]) / "speed.png").unlink()
    published.publish()
    page = (published.folder / "page.md").read_text()
    assert "### Speed" in page and "![" not in page and "no picture" in caplog.text


def test_the_pages_of_the_repository_show_the_published_outcomes(study, tmp_path):
    """Nobody has changed a table by hand, or an outcome without its tables."""
    pages = [tmp_path / "study.md", tmp_path / "repository.md"]
    shutil.copyfile(study.folder / "RESULTS.md", pages[0])
    shutil.copyfile(study.folder.parents[1] / "RESULTS.md", pages[1])
    for file in (
        study.folder / "outcomes.jsonl",
        *study.folder.glob("*.svg"),
        *study.folder.glob("*.png"),
    ):
        shutil.copyfile(file, tmp_path / file.name)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    status = study.command.main([
        "publish", "--out", str(tmp_path / "runs"), "--outcomes", str(tmp_path / "outcomes.jsonl"),
        "--pages", *map(str, pages)
    ])  # fmt: skip
    assert status == 0 and {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
