"""examples/study/pages.py: the pages of results show the published figures."""

import re
from types import SimpleNamespace

import pages
import pytest
from figures import HERE, Figures

FIGURES = Figures()


@pytest.mark.parametrize("page", pages.PAGES, ids=lambda page: str(page.parent.name))
def test_pages_show_the_published_figures(page):
    text = page.read_text(encoding="utf-8")
    assert pages.page_text(text, FIGURES) == text, "run python examples/study/pages.py"


def test_another_figure_changes_the_page(monkeypatch):
    found = Figures()
    found.system("speed-plenty/IB+SA(2) greedy")["quality"]["bleu"] = 12.3
    text = pages.PAGES[0].read_text(encoding="utf-8")
    assert "| bidirectional, 2 words (one seed) | 12.3 |" in pages.page_text(text, found)


@pytest.mark.parametrize("page", pages.PAGES, ids=lambda page: str(page.parent.name))
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\((?!http)([^)]+)\)", page.read_text(encoding="utf-8")):
        path, _, anchor = target.partition("#")
        other = page.parent / path if path else page
        assert other.exists(), target
        if anchor:
            titles = re.findall(r"^#+ (.*)", other.read_text(encoding="utf-8"), re.M)
            slugs = [re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles]
            assert anchor in slugs, target


def test_anchors_that_other_pages_name_exist():
    """Families' pages and the documentation link to headings of both pages."""
    root = pages.REPOSITORY
    named = set()
    for page in [
        root / "README.md",
        *root.glob("docs/*.md"),
        *root.glob("fairseq_hrt/*/README.md"),
        *root.glob("examples/**/*.md"),
    ]:
        for path, anchor in re.findall(
            r"\]\(([^)#]*\.md)#([\w-]+)\)", page.read_text(encoding="utf-8")
        ):
            named.add(((page.parent / path).resolve(), anchor))
    for path, anchor in named:
        titles = re.findall(r"^#+ (.*)", path.read_text(encoding="utf-8"), re.M)
        assert anchor in [
            re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles
        ], (path, anchor)


def test_every_claim_has_a_verdict_and_a_place():
    claims = pages.read_toml(HERE / "claims.toml")["claim"]
    assert len({claim["says"] for claim in claims}) > 60
    for claim in claims:
        assert pages.judged(claim, FIGURES)[0] in ("yes", "partly", "no", "not run yet")
        used = set(re.findall(r"\{(\w+)", claim["found"])) | set(
            re.findall(r"\b[a-z]\w*\b", f"{claim.get('yes')} {claim.get('partly')}")
        )
        assert set(claim.get("values", {})) <= used, f"{claim['says']}: values that nothing uses"


def test_verdicts():
    claim = {"yes": "a > 1", "partly": "a > 0"}
    assert [pages.verdict(claim, {"a": value}) for value in (2, 0.5, -1)] == ["yes", "partly", "no"]
    assert pages.verdict({"verdict": "partly"}, {}) == "partly"


@pytest.mark.parametrize(
    "text, message",
    [
        ("<!-- main:begin -->\n", "has no end"),
        ("<!-- main:end -->", "come in pairs"),
        ("<!-- main:begin -->\n<!-- seeds:end -->", "come in pairs"),
        ("<!-- main:begin -->\n<!-- seeds:begin -->", "come in pairs"),
        ("<!-- speed/other.md:begin -->\n<!-- speed/other.md:end -->", "no table 'speed/other.md'"),
        ("<!-- none/x.md:begin -->\n<!-- none/x.md:end -->", "no entry 'none'"),
    ],
)
def test_wrong_markers_are_refused(text, message):
    with pytest.raises(ValueError, match=message):
        pages.page_text(text, FIGURES)


def test_only_a_missing_speed_is_a_dash():
    def cell(place, column):
        return pages.system_table({"columns": [column], "systems": [["x", place]]}, FIGURES).split(
            "\n"
        )[-1]

    assert (
        cell("test-at/AT greedy", "sentences@1")
        == cell("speed/CTranslate2 int8 greedy", "times@1")
        == "| x | – |"
    )
    assert cell("speed/native AT greedy", "sentences@1") == "| x | 989 |"
    for place, column in (
        ("speed/none", "sentences@1"),
        ("none/x", "bleu"),
        ("test-at/AT greedy", "comet"),
    ):
        with pytest.raises(ValueError, match=r"no entry|no system|no figure"):
            cell(place, column)


def test_quality_may_be_that_of_another_place(tmp_path, monkeypatch):
    table = {
        "columns": ["bleu", "chrf", "difference", "sentences@1"],
        "systems": [["AT", "speed/native AT greedy"], ["HRT", "speed/native HRT k=2 (1 1)", "AT"]],
        "quality": {"AT": "test-at/AT beam 5"},
    }
    assert pages.system_table(table, FIGURES).split("\n")[2:] == [
        "| AT | 40.0 | 63.9 |  | 989 |",
        "| HRT | 37.4 | 62.3 | −2.5 | 1311 |",
    ]
    with pytest.raises(ValueError, match=r"quality names \['IB'\], of \['AT', 'HRT'\]"):
        pages.system_table({**table, "quality": {"IB": "test-at/AT greedy"}}, FIGURES)
    pictures = []
    for own in (table, {**table, "quality": {}}):
        monkeypatch.setattr(pages, "read_toml", lambda path, own=own: {"quality": own})
        pages.draw(tmp_path / "picture.svg", "quality", FIGURES)
        pictures.append((tmp_path / "picture.svg").read_bytes())
    assert pictures[0] != pictures[1]


def test_two_rows_of_one_label_are_refused():
    row = ["Transformer", "speed/native AT greedy"]
    with pytest.raises(ValueError, match="two systems of a table have one label"):
        pages.system_table({"columns": ["bleu"], "systems": [row, row]}, FIGURES)


def test_differences_have_a_sign_and_p_is_that_of_one_machine():
    table = {"columns": ["bleu", "difference", "p"], "systems": [
        ["AT", "test-at/AT greedy"], ["HRT", "test-hrt/HRT k=2 (1 1)", "AT"],
        ["2 layers", "test-2-layers/AT 2 layers greedy", "AT"]]}  # fmt: skip
    rows = pages.system_table(table, FIGURES).split("\n")[2:]
    assert rows == [
        "| AT | 39.3 |  |  |",
        "| HRT | 37.3 | −2.0 | 0.003 |",
        "| 2 layers | 39.0 | −0.3 |  |",
    ]
    figures = SimpleNamespace(value={"lower": 39.26, "higher": 39.3}.get)
    assert pages.difference("lower", "higher", figures) == "+0.0"


def test_a_table_of_seeds_has_their_mean_and_the_difference_of_means():
    figures = Figures()
    bleu = {"A": 40.04, "A seed 2": 41.0, "A seed 3": 42.0, "B": 39.0, "B seed 2": 39.0,
            "B seed 3": 39.31}  # fmt: skip
    figures.outcomes["seeds"] = {
        "identity": "0",
        "systems": [
            {"name": f"{name} greedy", "quality": {"bleu": own}} for name, own in bleu.items()
        ],
    }
    table = {"columns": ["seed@1", "seed@2", "seed@3", "mean", "difference", "p"],
             "systems": [["A", "seeds/A* greedy"], ["B", "seeds/B* greedy", "A"]]}  # fmt: skip
    assert pages.system_table(table, figures).split("\n") == [
        "| System | seed 1 | seed 2 | seed 3 | mean | difference | p |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
        "| A | 40.0 | 41.0 | 42.0 | 41.0 |  |  |",
        "| B | 39.0 | 39.0 | 39.3 | 39.1 | −1.9 |  |",
    ]
    assert pages.filled("{seeds/A* greedy/bleu:.2f}", figures) == "41.01"
    assert pages.filled("{seeds/B* greedy/bleu − seeds/A* greedy/bleu}", figures) == "−1.9"
    del figures.outcomes["seeds"]["systems"][1]
    with pytest.raises(ValueError, match=r"no figure 'seeds/A\* greedy/bleu'.*seed 2"):
        figures.value("seeds/A* greedy/bleu")


def test_the_picture_is_small_and_has_every_system(tmp_path):
    pages.draw(tmp_path / "picture.svg", "quality", FIGURES)
    text = (tmp_path / "picture.svg").read_text(encoding="utf-8")
    assert len(text) < 30_000
    for label, _ in pages.read_toml(HERE / "tables.toml")["quality"]["systems"]:
        assert label in text
