"""The manual is built without a warning and leaves nothing out; the code that it shows works."""

import re
import subprocess
from pathlib import Path

import pytest
from command_line import ENVIRONMENT, hypotheses
from fairseq.data import indexed_dataset
from tiny_models import write_bundle

from fairseq_hrt.cli.main import VERBS
from fairseq_hrt.cli.option_help import own_parsers
from fairseq_hrt.native.options.schema import CALLER
from fairseq_hrt.native.options.values import SCHEMA

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def manual(command, tmp_path_factory):
    """Folder of the pages."""
    pytest.importorskip("sphinx", reason="builds the manual; it comes with the extra docs")
    pytest.importorskip("furo", reason="the manual's appearance; it comes with the extra docs")
    folder = tmp_path_factory.mktemp("manual")
    # -W and -n: a link that leads nowhere, or a page that no other one leads to, is an error.
    command(
        "python", "-m", "sphinx", "-W", "--keep-going", "-n", "-q", "-c", "docs", ".", folder,
        cwd=ROOT,
    )  # fmt: skip
    return folder


def terms(page):
    """The options that a page explains, in the order of the page."""
    return re.findall(
        r"<dt><code[^>]*>(.*?)</code></dt>", re.sub("</?span[^>]*>", "", page.read_text())
    )


def test_every_decoding_option_is_there(manual):
    names = [option.replace("_", "-") for option, known in SCHEMA.items() if known.origin != CALLER]
    page = manual / "docs" / "reference" / "decoding_options.html"
    assert sorted(terms(page)) == sorted(f"--{name}" for name in names)
    # With their conditions from the schema.
    assert "Has an effect only with --dag-decode-strategy viterbi or joint-viterbi." in re.sub(
        "<[^>]*>", "", page.read_text()
    )


def test_every_training_option_is_there(manual):
    ours = [
        option for _, _, actions in own_parsers() for option in actions if option.dest not in SCHEMA
    ]
    shown = {
        term.split()[0] for term in terms(manual / "docs" / "reference" / "training_options.html")
    }
    assert {option.option_strings[0] for option in ours} == shown


def test_every_verb_is_there(manual):
    page = (manual / "docs" / "reference" / "command_line.html").read_text()
    assert all(f'<section id="{verb}">' in page for verb in VERBS)
    assert "Makes a bundle of a model that somebody else has trained" in page


def test_every_page_of_a_family_has_the_same_sections():
    pages = [
        ROOT / "docs" / "families" / f"{name}.md"
        for name in ("transformer", "hrt", "bidirectional", "dag", "jacobi", "ctc")
    ]
    for page in pages:
        titles = re.findall("^## (.+)$", page.read_text(), re.M)
        assert {"What was measured", "Limits", "Paper"} <= set(titles), page
        assert titles[0] in ("Train and decode", "Decode")


def code_of(page):
    """The Python that a page shows."""
    return "".join(
        re.findall(r"^```python\n(.*?)^```", (ROOT / "docs" / page).read_text(), re.M | re.S)
    )


def test_translating_in_python(tmp_path):
    """As docs/python.md shows it."""
    write_bundle(tmp_path / "bundle", "autoregressive")
    names = {}
    exec(code_of("python.md"), names)
    first, second = names["translate_politely"](tmp_path / "bundle", ["a b", "c"])
    assert re.search(r"\(\d+ passes\)$", first) and re.search(r"\(\d+ passes\)$", second)


def test_translations_of_more_text(forks, toy_corpus, toy_data, teacher, tmp_path):
    """As docs/guides/distilling.md makes data of them, in the other direction."""
    guide = (ROOT / "docs" / "guides" / "distilling.md").read_text(encoding="utf-8")
    section = guide.split("## Translations of more text\n")[1]
    shown = re.search(r"```bash\n(.*?)```", section, re.S)[1]
    script = re.sub(r"\b(en|de)\b", lambda match: {"en": "de", "de": "en"}[match[0]], shown)
    (tmp_path / "bpe").symlink_to(toy_corpus)
    (tmp_path / "data-bin").symlink_to(toy_data)
    (tmp_path / "at").mkdir()
    (tmp_path / "at" / "checkpoint_best.pt").symlink_to(teacher)
    (tmp_path / "more.de").write_text("a b c\nd e\nj\n")
    subprocess.run(
        ["bash", "-e", "-c", script], cwd=tmp_path, check=True, capture_output=True,
        env={**ENVIRONMENT, **forks.of_a_shell()},
    )  # fmt: skip
    raw, both = (
        [(folder / name).read_text().splitlines() for name in names]
        for folder, names in (
            (toy_corpus, ("train.de", "train.en")), (tmp_path / "more", ("both.de", "both.en")),
        )
    )  # fmt: skip
    assert [lines[: len(raw[0])] for lines in both] == raw
    assert both[0][len(raw[0]) :] == ["a b c", "d e", "j"] and len(both[1]) == len(both[0])
    data = indexed_dataset.make_dataset(str(tmp_path / "both" / "train.de-en.de"), "mmap")
    assert len(data) == len(both[0])


def test_decoders_options_and_families_of_your_own(command, toy_data, teacher, tmp_path):
    """As docs/extending.md shows them, in a stock command."""
    plugin = tmp_path / "first_words"
    plugin.mkdir()
    (plugin / "__init__.py").write_text(code_of("extending.md"))

    def translated(*options):
        shown = command(
            "fairseq-generate", toy_data, "--user-dir", plugin, "--task",
            "translation_first_words", "--path", teacher, "--beam", "2", "--min-len", "5",
            "--max-len-b", "8", "--cpu", *options,
        )  # fmt: skip
        return [text.split() for found in hypotheses(shown.stdout).values() for text in found]

    assert {len(words) for words in translated()} == {3}
    assert {len(words) for words in translated("--most-words", "2")} == {2}


def test_the_tutorial_runs(forks, tmp_path):
    """As it stands, but with a tiny corpus and tiny models; the repository holds no outputs."""
    nbclient = pytest.importorskip(
        "nbclient", reason="runs the tutorial; it comes with the extra docs"
    )
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip(
        "ipykernel", reason="what the tutorial runs in; it comes with the extra docs"
    )
    notebook = nbformat.read(ROOT / "docs" / "tutorial.ipynb", as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert not any(cell.outputs or cell.execution_count for cell in cells)
    sizes = (
        "--encoder-embed-dim 32 --decoder-embed-dim 32 --encoder-ffn-embed-dim 32"
        " --decoder-ffn-embed-dim 32"
    )
    small = 'case $1 in *generate.py) set -- "$@" --train 60 --valid 10 --test 5;; esac'
    tiny = {"fairseq-train": f"{sizes} --max-update 2 --max-tokens 600"}
    shells = forks.of_a_shell(tiny, python=small)
    client = nbclient.NotebookClient(
        notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute(env={**ENVIRONMENT, **shells})
    written = ["".join(output.get("text", "") for output in cell.outputs) for cell in cells]
    assert written[-3].count(" steps, ") == 3
    assert (tmp_path / "tutorial" / "bundle" / "runtime.safetensors").is_file()
    assert "Generate test" in "".join(written)
