"""The code keeps the rules of pyproject.toml: ruff's, its formatting, and types that hold
together."""

import ast
import importlib.util
import re
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


# What a native reader stumbles over, and what stands there instead.
WORDING = {
    r"\bis no (bundle|checkpoint|file|folder|index|integer|list|number|shortlist|text|token|tuple)\b"
    r"(?! (longer|more))": "is not a …",
    r"\b(leaves?|left)\b[^.;:]{0,24}\baway\b": "leave it out",
    r"\bwhole number": "integer",
}
# «There is no text» says something else.
ELSEWHERE = re.compile(r"(?i)\b(there|where|that) is no\b")


@pytest.mark.parametrize("pattern", WORDING, ids=WORDING.values())
def test_wording(pattern):
    """Messages and pages; of the code only what is shown to somebody."""
    found = []
    for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("fairseq_hrt/**/*.py")]:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".py":
            text = "\n".join(strings(text))
        found += [
            f"{path.relative_to(ROOT)}: {line.strip()}"
            for line in text.splitlines()
            if re.search(pattern, ELSEWHERE.sub("", line))
        ]
    assert not found, f"write «{WORDING[pattern]}»:\n" + "\n".join(found)


def strings(source):
    """The constant texts of a module, f-strings' too, docstrings included."""
    return [
        node.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
