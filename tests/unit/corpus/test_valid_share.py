"""The share of valid translations."""

import json
import subprocess
import sys

import pytest

VALID = [["Er kommt.", "Der kommt."], ["Sie geht."], ["Heute regnet es.", "Es regnet heute."]]


@pytest.mark.parametrize(
    "hypotheses, expected",
    [
        (["Er kommt.", "Sie geht.", "Es regnet heute."], 1.0),
        (["Er  kommt. ", "Sie geht", "Heute es regnet."], 1 / 3),
        (["Sie geht.", "Er kommt.", ""], 0.0),
    ],
)
def test_valid_share(corpus, hypotheses, expected):
    assert corpus.valid_share.valid_share(hypotheses, VALID) == pytest.approx(expected)


def test_wrong_number_of_lines_is_named(corpus):
    with pytest.raises(ValueError, match="2 hypotheses for 3 sources"):
        corpus.valid_share.valid_share(["a", "b"], VALID)
    with pytest.raises(ValueError, match="no hypotheses"):
        corpus.valid_share.valid_share([], [])


def test_command(corpus, tmp_path):
    path, hypotheses = tmp_path / "test.valid.jsonl", tmp_path / "hypotheses.txt"
    records = ({"source": "x", "translations": options} for options in VALID)
    path.write_text(
        "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records),
        encoding="utf-8",
    )
    hypotheses.write_text("Er kommt.\nSie geht.\nUnsinn.\n", encoding="utf-8")
    script = str(corpus.folder / "valid_share.py")
    command = [sys.executable, script, "--valid-translations", str(path), str(hypotheses)]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    assert result.stdout == "66.7% of 3 hypotheses are valid translations\n"
