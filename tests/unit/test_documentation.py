"""Commands that the documentation shows do what a reader expects of them."""

import re
import shlex
from pathlib import Path

import pytest
from fairseq import options

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(ROOT.glob("docs/**/*.md"))


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
