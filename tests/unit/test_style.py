"""The code keeps the rules of pyproject.toml: ruff's, its formatting, and types that hold
together."""

import ast
import functools
import importlib.util
import io
import re
import subprocess
import sys
import tokenize
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


# Phrases that a native reader stumbles over, with the plain ones.
WORDING = {
    r"\b(is|are|was|were) no (?!longer\b|more\b|less\b|better\b|worse\b|faster\b|slower\b"
    r"|smaller\b|deeper\b|other\b|one\b)": "is not a …",
    r"\b(leaves?|left|leaving)\b[^.;:]{0,24}\baway\b": "leave it out",
    r"\bwhole number": "integer",
    r"\bone by one\b": "batch size 1; one at a time",
    r"(?i)\b(goes|went|gone|go) on\b": "continue",
    r"\bknows\b": "supports; has",
    r"\b[Ss]ays\b": "reports; states; prints",
    r"^\s*# What (?!(is|are|was|were|if|does|do|did)\b)(?!.*\?)": "the words that …",
}
# «There is no text» means something else.
ELSEWHERE = re.compile(r"(?i)\b(there|where|that) (is|are|was|were) no\b")
# Where these words stand for something else: invented reports, a key of claims.toml.
EXEMPT = ("examples/corpus", "examples/study/pages.py", "tests/unit/study", "tests/unit/test_style")


@pytest.mark.parametrize("pattern", WORDING, ids=WORDING.values())
def test_wording(pattern):
    """Pages, messages and comments."""
    found = []
    for path in sorted(
        path
        for folder in (".", "docs", "examples", "fairseq_hrt", "tests")
        for suffix in ("py", "md", "sh", "c", "h")
        for path in (ROOT / folder).glob(f"{'' if folder == '.' else '**/'}*.{suffix}")
    ):
        name = str(path.relative_to(ROOT))
        if name.startswith(EXEMPT) or not re.search(pattern, joined(path), re.M):
            continue
        for line in written(path):
            if re.search(pattern, ELSEWHERE.sub("", line)):
                found.append(f"{name}: {line.strip()}")
    assert not found, f"write «{WORDING[pattern]}»:\n" + "\n".join(found)


@pytest.mark.parametrize("folder", ["docs", "examples", "fairseq_hrt", "tests"])
def test_nothing_names_a_folder_of_a_machine(folder):
    """Published figures, too: what measured them runs in somebody's folders."""
    pattern, found = re.compile(rb"/(?:root|home|Users|work)/[\w.]+"), {}
    for path in (ROOT / folder).rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            found.update(dict.fromkeys(pattern.findall(path.read_bytes()), str(path)))
    assert not found


@functools.cache
def joined(path):
    """A file with texts of several lines in one: where this does not match, :func:`written`, which
    takes longer, does not either."""
    text = ELSEWHERE.sub("", path.read_text(encoding="utf-8"))
    return re.sub(r"[\"']\s*\n\s*[rbfRBF]{0,2}[\"']", "", text)


@functools.cache
def written(path):
    """The lines of a file that people read: comments and texts; of a page all but headings."""
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        tokens = tokenize.generate_tokens(io.StringIO(source).readline)
        comments = [token.string for token in tokens if token.type == tokenize.COMMENT]
        source = "\n".join([*comments, *strings(source)])
    elif path.suffix in (".c", ".h"):
        source = "\n".join(re.findall(r"/\*.*?\*/|//[^\n]*|\"[^\"\n]*\"", source, re.S))
    elif path.suffix == ".sh":
        source = "\n".join(re.findall(r"(?:^|\s)#.*", source))
    lines = source.split("\n")
    return [line for line in lines if path.suffix != ".md" or not line.startswith("#")]


def strings(source):
    """The constant texts of a module, f-strings' too, docstrings included."""
    return [
        node.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
