"""examples/serve: its image has what it copies, and it measures what it claims."""

import subprocess
import sys
from pathlib import Path

import pytest

import fairseq_hrt

ROOT = Path(fairseq_hrt.__file__).parents[1]
EXAMPLE = ROOT / "examples" / "serve"


def test_the_image_has_what_its_build_copies():
    for line in (EXAMPLE / "Dockerfile").read_text().splitlines():
        if line.startswith("COPY "):
            assert all((ROOT / name).exists() for name in line.split()[1:-1])


@pytest.mark.slow
def test_load(make_client, listening, tmp_path):
    (tmp_path / "lines").write_text("ab\n\ncd ef\n")
    with listening(make_client().app, 60, 1000) as (address, _):
        arguments = [
            "--source",
            "en",
            "--target",
            "de",
            "--lines",
            tmp_path / "lines",
            "--clients",
            "1",
            "3",
            "--seconds",
            "0.3",
        ]
        program = [
            sys.executable,
            EXAMPLE / "load.py",
            f"http://127.0.0.1:{address[1]}",
            *arguments,
        ]
        result = subprocess.run(list(map(str, program)), capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    rows = [line.split() for line in result.stdout.splitlines()[1:]]
    assert [row[0] for row in rows] == ["1", "3"] and all(
        float(row[1]) > 0 and row[-1] == "0" for row in rows
    )
