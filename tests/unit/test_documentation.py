"""Commands that the documentation shows do what a reader expects of them."""

import re
import shlex
from pathlib import Path

import pytest
from fairseq import options

from fairseq_hrt.cli.main import TRANSLATING, VERBS

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md")])


def commands(page, program):
    """The words of each shell command of a page that starts with ``program``."""
    for block in re.findall(r"```bash\n(.*?)```", page.read_text(encoding="utf-8"), re.S):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if words and words[0] == program:
                yield words[1:]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_trainings_do_not_fill_the_disk(page):
    """Without a limit, fairseq keeps a checkpoint of every epoch: hundreds of them in the first
    example."""
    parser = options.get_training_parser()
    for words in commands(page, "fairseq-train"):
        assert "--save-dir" in words
        chosen, _ = parser.parse_known_args(words)
        assert chosen.no_epoch_checkpoints or 0 < chosen.keep_last_epochs <= 10


def test_trainings_are_found():
    shown = {page.stem for page in PAGES if list(commands(page, "fairseq-train"))}
    assert {
        "first_student",
        "training",
        "transformer",
        "hrt",
        "bidirectional",
        "dag",
        "marian",
    } <= shown


@pytest.mark.parametrize("page, heading", [
    ("README.md", "## Serve a model"), ("docs/first_minute.md", "# The first minute"),
])  # fmt: skip
def test_a_first_minute_installs_what_it_uses(page, heading, tmp_path):
    text = (ROOT / page).read_text(encoding="utf-8")
    section = tmp_path / "section.md"
    section.write_text(text.split(f"{heading}\n")[1].split("\n## ")[0], encoding="utf-8")
    first, *others = (words[1:2] for words in commands(section, "pip") if words[0] == "install")
    assert first == ["./examples/translate_only[import,serve]"]
    assert others in ([], [["huggingface_hub"]])
    used = {words[0] for words in commands(section, "fairseq-hrt")}
    assert used >= {"import", "translate", "serve"} and used <= set(TRANSLATING) < set(VERBS)


@pytest.mark.parametrize("page", ["README.md", "docs/choosing.md", "docs/first_student.md"])
def test_the_cheapest_student_is_named_where_students_are_chosen(page):
    text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
    assert "two decoder layers" in text


def test_settings_at_the_papers_size_are_those_of_the_recipes(command):
    """Each row has the same tokens an update on any number of GPUs; every option exists."""
    page = (ROOT / "docs" / "guides" / "papers_size.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| \[.*?\]\((.*?)\) \| ([\d,]+) \| (.*?) \| (.*?) \| (.*?) \|$", page, re.M
    )
    assert len(rows) == 6
    shared = {"wmt14_en_de/hrt": "hrt", "wmt14_en_de/dag": "dag"}
    for folder, tokens, *cells in rows:
        name = folder.removeprefix("../../examples/")
        script = f"common/{shared[name]}_at_full_size.sh" if name in shared else f"{name}/train.sh"
        recipe = (ROOT / "examples" / script).read_text(encoding="utf-8")
        for gpus, cell in zip((1, 4, 8), cells):
            batch, often = (int(own.replace(",", "")) for own in cell.split(" × "))
            assert gpus * batch * often == int(tokens.replace(",", ""))
            # The second stage of dag and ctc has four times the tokens of their first, as a product
            # there.
            often //= 4 if tokens == "262,144" else 1
            own = re.search(r"^choose_update (\d+) (\d+)$|UPDATE=\((\d+) (\d+)\)", recipe, re.M)
            update, most = (int(value) for value in own.groups() if value)
            assert batch == min(most, update // gpus) and often == update // gpus // batch
    shown = set(re.findall(r"`(--[a-z0-9-]+)", page)) - {"--batch-split-by-src"}
    chosen = ["--user-dir", ROOT / "fairseq_hrt", "--task", "translation_dag"]
    found = command("fairseq-train", "--help", *chosen).stdout
    assert {"--dag-batch-vertices", "--update-freq"} <= shown <= set(re.findall(r"--[\w-]+", found))


def test_every_paper_of_a_family_can_be_cited():
    cited = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    for page in sorted((ROOT / "docs/families").glob("*.md")):
        text = page.read_text(encoding="utf-8")
        section = text.partition("\n## Paper\n")[2]
        for title in re.findall(r"\*([^*]+)\.\*", " ".join(section.split())):
            assert f'title: "{title}' in cited, f"{page.name}: {title}"
