"""examples/measure/perplexity.sh on a tiny language model."""

import math
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from recipe_scripts import copied

ROOT = Path(__file__).resolve().parents[2]
TINY = (
    "--decoder-layers 1 --decoder-embed-dim 32 --decoder-ffn-embed-dim 32"
    " --decoder-attention-heads 2 --max-tokens 200 --update-freq 1 --cpu --num-workers 0"
    " --tokens-per-sample 100"
)

pytestmark = pytest.mark.slow


@pytest.fixture
def start(forks, tmp_path):
    programs = f"{Path(sys.executable).parent}:{os.environ['PATH']}"

    own = forks.of_a_shell({"fairseq-train": TINY, "fairseq-eval-lm": "--cpu --num-workers 0"})

    def call(script, *arguments, status=0, copies=False, **settings):
        environment = {
            **os.environ, "PATH": programs, "OMP_NUM_THREADS": "1", "OUT": str(tmp_path / "out"),
            "FP16": "", "UPDATES": "1", "MERGES": "30", **(copied(own) if copies else own),
            **settings,
        }  # fmt: skip
        shown = subprocess.run(
            ["bash", str(ROOT / "examples" / script), *map(str, arguments)],
            cwd=tmp_path, env=environment, capture_output=True, text=True,
        )  # fmt: skip
        assert shown.returncode == status, shown.stdout[-2000:] + shown.stderr[-2000:]
        return shown.stdout + shown.stderr

    return call


def by_hand(model, folder):
    """exp of the mean -log P of all subwords and </s>, in one pass over the whole text, which
    begins behind </s>."""
    from fairseq import checkpoint_utils

    models, _, task = checkpoint_utils.load_model_ensemble_and_task(
        [str(model)], {"data": str(folder / "data-bin")}
    )
    words = task.source_dictionary
    text = [
        words.index(word)
        for line in (folder / "subwords").read_text().splitlines()
        for word in [*line.split(), words.eos_word]
    ]
    given = torch.tensor([[words.eos(), *text[:-1]]])
    scores = torch.log_softmax(models[0].eval()(given)[0].float(), -1)[0]
    return math.exp(-scores[torch.arange(len(text)), torch.tensor(text)].mean().item())


def rows(table):
    cells = [line.split("|")[1:3] for line in table.read_text().splitlines()[2:]]
    return {name.strip(): float(number) for name, number in cells}


def test_translations_are_scored_by_a_model_of_the_target_side(start, tmp_path):
    random.seed(1)
    for split, lines in (("train", 40), ("valid", 8), ("test", 8)):
        for language in ("en", "de"):
            text = "".join(
                " ".join(random.choices(["Hund", "bellt", "laut", "der", "sehr"], k=5)) + " .\n"
                for _ in range(lines)
            )
            (tmp_path / f"{split}.{language}").write_text(text)
    # As the recipe makes it, whose words and subwords these are.
    start("common/prepare_text.sh", tmp_path, copies=True, SPLITS="train valid")
    (tmp_path / "same.de").write_text("Der Hund bellt.\n" * 4)
    shown = start("measure/perplexity.sh", f"reference={tmp_path / 'test.de'}", "same=same.de")
    out = tmp_path / "out/lm"
    found = rows(out / "perplexity.md")
    assert list(found) == ["reference", "same"] and "| same |" in shown
    model = out / "model/checkpoint_best.pt"
    for name, perplexity in found.items():
        # All of it fits beside the context.
        assert perplexity == pytest.approx(by_hand(model, out / "scored" / name), rel=1e-3)
    again = start("measure/perplexity.sh", "same=same.de")
    assert again.count("finished before") == 3 and rows(out / "perplexity.md") == {
        "same": found["same"]
    }
    # A published model: its own dictionary, and codes of fastBPE.
    published = tmp_path / "published"
    published.mkdir()
    (published / "model.pt").write_bytes(model.read_bytes())
    (published / "dict.txt").write_bytes((tmp_path / "out/data-bin/dict.de.txt").read_bytes())
    codes = (tmp_path / "out/bpe/codes").read_text().splitlines()
    (published / "bpecodes").write_text("".join(f"{line} 7\n" for line in codes[1:]))
    other = {"LM": "published", "UPDATES": "", "OUT": str(tmp_path / "other")}
    start("measure/perplexity.sh", "same=same.de", **other)
    assert rows(tmp_path / "other/lm/perplexity.md") == {"same": found["same"]}


def test_what_is_missing_is_named(start, tmp_path):
    assert "'at.de' is not NAME=FILE" in start("measure/perplexity.sh", "at.de", status=1)
    assert "'' is not NAME=FILE" in start("measure/perplexity.sh", status=1)
    assert "codes does not exist: give the OUT of prepare_text.sh" in start(
        "measure/perplexity.sh", "a=b", status=1
    )
    assert "CONTEXT=512: give a number below" in start(
        "measure/perplexity.sh", "a=b", status=1, CONTEXT="512"
    )
