"""The repair `scored-files`: ``fairseq-score --sacrebleu`` gives sacreBLEU lists; the numbers are
an integration test."""

import io
import types

import pytest
import sacrebleu

from fairseq_hrt.compat.scored_files import REPAIR


@pytest.fixture
def module():
    """A module that imports sacreBLEU where it needs it, as fairseq's does."""
    made = types.ModuleType("user")
    REPAIR.apply(made)
    exec(
        "def score(hypotheses, references):\n"
        "    import sacrebleu\n"
        "    return sacrebleu.corpus_bleu(hypotheses, references)\n"
        "def imported():\n"
        "    import json, sacrebleu\n"
        "    return json, sacrebleu\n",
        vars(made),
    )
    return made


def test_open_files_score_as_their_lines(module):
    hypotheses, reference = (
        ["the cat sat here .\n", "a dog !\n"],
        ["the cat sat there .\n", "a dog !\n"],
    )
    found = module.score(io.StringIO("".join(hypotheses)), [io.StringIO("".join(reference))])
    assert found.score == sacrebleu.corpus_bleu(hypotheses, [reference]).score
    assert found.format() == sacrebleu.corpus_bleu(hypotheses, [reference]).format()


def test_nothing_else_is_changed(module):
    before = sacrebleu.corpus_bleu
    json, seen = module.imported()
    assert json.loads("1") == 1
    assert seen.__name__ == "sacrebleu" and seen.corpus_chrf is sacrebleu.corpus_chrf
    assert sacrebleu.corpus_bleu is before and not hasattr(before, "__wrapped__")


@pytest.mark.parametrize("version, needed", [("1.5.1", False), ("2.0.0", True), ("2.6.0", True)])
def test_sacrebleu_1_takes_files(monkeypatch, version, needed):
    monkeypatch.setattr(sacrebleu, "__version__", version)
    assert (REPAIR.needed is not None) == needed
