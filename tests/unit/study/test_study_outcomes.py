"""examples/study: what is published makes the tables again, without what was trained."""

import json
import shutil

import pytest

PAGE = "By hand.\n\n<!-- report:begin -->\nold\n<!-- report:end -->\n\n<!-- other:begin -->\nkept\n<!-- other:end -->\n"


@pytest.fixture
def folder(study, made, tmp_path):
    """A matrix with an analysis, claims and a page, beside the finished entries of ``made``."""
    raw, entries, store = made
    made_by = store.path({entry.name: entry for entry in entries}["t"])
    (made_by / "table.md").write_text(
        "| System | BLEU |\n| --- | ---: |\n| A | 1 |\n\nDecoding:\n\n* A: `path:/here`\n\nEnd.\n"
    )
    (made_by / "speed.png").write_bytes(b"picture")
    raw["analysis"] = [{"entry": "t", "title": "Speed", "table": "table.md", "picture": "speed.png"}]
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
    (tmp_path / "page.md").write_text(PAGE)
    return raw, claims, entries, store, tmp_path


def publish(study, folder, monkeypatch, store=None, pages=("page.md",)):
    raw, claims, entries, own, path = folder
    monkeypatch.setattr(study.command, "read_toml", lambda name: claims if name.name == "claims" else raw)
    options = [path / name for name in ("matrix", "claims", "outcomes.jsonl")]
    given = study.command.argparse.Namespace(
        matrix=options[0], claims=options[1], outcomes=options[2], pages=[path / page for page in pages], published=True
    )
    study.command.publish(given, entries, store or own)
    return given


def test_tables_are_the_same_without_the_store(study, folder, monkeypatch, capsys):
    raw, claims, entries, store, path = folder
    publish(study, folder, monkeypatch)
    assert "new: start, m, t" in capsys.readouterr().out.replace("moved, ", "").replace("data, ", "")
    page = (path / "page.md").read_text()
    assert page.startswith("By hand.\n\n<!-- report:begin -->\n## First\n") and page.endswith(
        PAGE[PAGE.index("<!-- other") :]
    )
    assert "| student | 30.25 | −30.25 (p = 0.0" in page and "![Speed](t-speed.png)" in page and "/here" not in page
    assert (path / "t-speed.png").read_bytes() == b"picture"
    figures = study.figures.Figures(entries, store, reference="B")
    (path / "own").mkdir()
    own = study.tables.make_texts(raw, claims, figures, path / "own")
    empty = study.store.Store(path / "nothing")
    published = study.outcomes.read_outcomes(path / "outcomes.jsonl")
    again = study.figures.Figures(entries, empty, published, "B", path)
    assert study.tables.make_texts(raw, claims, again, path) == own and "60.5" in own["claims"]
    # Nothing is lost where nothing is finished.
    before = (path / "outcomes.jsonl").read_bytes()
    publish(study, folder, monkeypatch, empty)
    assert (path / "outcomes.jsonl").read_bytes() == before and (path / "page.md").read_text() == page
    assert "of which new: none" in capsys.readouterr().out


def test_a_published_outcome_stands_for_its_entry(study, folder, monkeypatch):
    """A second run of the same options does not change what is published, and p is that of one run."""
    raw, _, entries, store, path = folder
    publish(study, folder, monkeypatch)
    t = {entry.name: entry for entry in entries}["t"]
    results = json.loads((store.path(t) / "results.json").read_text())
    results["systems"][0]["quality"]["bleu"] = 99.0
    (store.path(t) / "results.json").write_text(json.dumps(results))
    published = study.outcomes.read_outcomes(path / "outcomes.jsonl")
    figures = study.figures.Figures(entries, store, published)
    assert figures.value("t/A/bleu") == 60.5 and figures.translations("t", "A") is None
    at, student = study.tables.read_rows(raw)[:2]
    assert study.tables.significance(figures, student, at) == pytest.approx(published[t.identity].p["B against t/A"])
    # The other row's benchmark is this machine's own: its translations are not those that were compared.
    other = study.tables.replace(at, test="later")
    later = {entry.name: entry for entry in entries}["later"]
    shutil.copytree(store.path(t), store.path(later))
    assert study.tables.significance(figures, student, other) is None
    assert study.tables.significance(figures, study.tables.replace(at, test="later"), at) is None


def test_an_outcome_of_other_options_is_dropped_by_name(study, folder, monkeypatch, caplog):
    path = folder[-1]
    publish(study, folder, monkeypatch)
    lines = (path / "outcomes.jsonl").read_text().splitlines()
    gone = {**json.loads(lines[0]), "identity": "0123", "name": "gone"}
    (path / "outcomes.jsonl").write_text("".join(line + "\n" for line in [*lines, json.dumps(gone)]))
    publish(study, folder, monkeypatch)
    assert "'gone' (0123)" in caplog.text and (path / "outcomes.jsonl").read_text().splitlines() == lines


@pytest.mark.parametrize("line, message", [
    ("{", "line 2 is no outcome"), ("[]", "line 2 is no outcome"), ('{"identity": "a"}', "name"),
    ('{"identity": "a", "name": "b", "code": "c"}', "unknown key 'code'"),
])  # fmt: skip
def test_a_wrong_line_is_named(study, tmp_path, line, message):
    path = tmp_path / "outcomes.jsonl"
    path.write_text('{"identity": "a", "name": "b"}\n' + line + "\n")
    with pytest.raises(ValueError, match=message):
        study.outcomes.read_outcomes(path)


def test_what_was_not_published_is_asked_for(study, folder, monkeypatch):
    _, _, entries, store, path = folder
    publish(study, folder, monkeypatch)
    published = study.outcomes.read_outcomes(path / "outcomes.jsonl")
    figures = study.figures.Figures(entries, store, published)
    with pytest.raises(ValueError, match="published outcome of 't' has no results.json:systems.1.identical"):
        figures.value("t:results.json:systems.1.identical")
    with pytest.raises(ValueError, match="has no other.md"):
        figures.text("t", "other.md")


def test_no_page_is_changed_if_one_has_no_place_for_tables(study, folder, monkeypatch):
    path = folder[-1]
    (path / "second.md").write_text("<!-- other:begin --><!-- other:end -->\n")
    with pytest.raises(ValueError, match="second.md has no part between"):
        publish(study, folder, monkeypatch, pages=("page.md", "second.md"))
    assert (path / "page.md").read_text() == PAGE and not (path / "outcomes.jsonl").exists()


def test_a_missing_picture_stops_no_table(study, folder, caplog):
    raw, claims, entries, store, path = folder
    (store.path({entry.name: entry for entry in entries}["t"]) / "speed.png").unlink()
    texts = study.tables.make_texts(raw, claims, study.figures.Figures(entries, store), path)
    assert "### Speed" in texts["report"] and "![" not in texts["report"] and "no picture" in caplog.text


def test_the_pages_of_the_repository_show_the_published_outcomes(study, tmp_path):
    """Nobody has changed a table by hand, or an outcome without its tables."""
    pages = {}
    for name in ("study", "repository"):
        pages[name] = tmp_path / f"{name}.md"
    shutil.copyfile(study.folder / "RESULTS.md", pages["study"])
    shutil.copyfile(study.folder.parents[1] / "RESULTS.md", pages["repository"])
    for file in (study.folder / "outcomes.jsonl", *study.folder.glob("*.svg"), *study.folder.glob("*.png")):
        shutil.copyfile(file, tmp_path / file.name)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    status = study.command.main([
        "publish", "--out", str(tmp_path / "runs"), "--outcomes", str(tmp_path / "outcomes.jsonl"), "--pages", *map(str, pages.values())
    ])  # fmt: skip
    assert status == 0 and {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
