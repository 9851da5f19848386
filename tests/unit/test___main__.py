"""The command line as a whole: verbs, and what is said without one."""

import pytest

import fairseq_hrt
from fairseq_hrt.__main__ import main, no_such_verb


def test_version_and_misspelt_verbs(capsys):
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out == f"fairseq_hrt {fairseq_hrt.__version__}\n"
    assert "did you mean 'translate'?" in no_such_verb("transalte")
    assert "did you mean 'graph-statistics'?" in no_such_verb("graph_statistics")
    assert "did you mean" not in no_such_verb("xyz") and "translate" in no_such_verb("xyz")
