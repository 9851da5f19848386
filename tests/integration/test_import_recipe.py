"""examples/import/student.sh on a tiny model with random weights."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from imported_models import WORDS, marian_folder, sentencepiece_model

ROOT = Path(__file__).resolve().parents[2]
__all__ = ["marian_folder", "sentencepiece_model"]

pytestmark = pytest.mark.slow


def test_a_student_is_trained_and_compared(forks, marian_folder, tmp_path):
    generator = np.random.default_rng(1)
    lines = [" ".join(generator.choice(WORDS, 5)) for _ in range(40)]
    (tmp_path / "text").write_text("\n".join(lines) + "\n")
    settings = {
        "SOURCE": str(marian_folder().path), "TEXT": str(tmp_path / "text"),
        "OUT": str(tmp_path / "out"), "TGT": "de", "TEST": "6", "VALID": "4", "HOURS": "0.0001",
        "MAX_TOKENS": "100",
    }  # fmt: skip
    programs = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {
        **os.environ,
        "PATH": programs,
        "OMP_NUM_THREADS": "1",
        **forks.of_a_shell(),
        **settings,
    }

    def start():
        command = ["bash", str(ROOT / "examples/import/student.sh")]
        shown = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert shown.returncode == 0, shown.stdout[-2000:] + shown.stderr[-2000:]
        return shown.stdout

    start()
    table = (tmp_path / "out/comparison/comparison.md").read_text()
    assert "| imported model | | | | " in table and " of 6 | " in table and "nrefs:1" in table
    again = start()
    assert again.count("finished before") == 7 and "\n+ " not in again
