"""The code keeps the rules of pyproject.toml: ruff's, its formatting, and types that hold
together."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

import fairseq_hrt

ROOT = Path(fairseq_hrt.__file__).parent.parent


@pytest.mark.parametrize(
    "command",
    ["ruff check", "ruff format --check", "mypy --no-error-summary"],
    ids=["rules", "format", "types"],
)
def test_style(command):
    tool, *arguments = command.split()
    if importlib.util.find_spec(tool) is None:
        pytest.skip(f"{tool} is not installed: pip install -e '.[lint]'")
    # Both keep caches at the root, so that only a first run is slow.
    found = subprocess.run(
        [sys.executable, "-m", tool, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert not found.returncode, (
        f"{command} (fix: ruff check --fix; ruff"
        f" format):\n{found.stdout[-6000:]}{found.stderr[-2000:]}"
    )
