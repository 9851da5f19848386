"""Runs the shell recipes of ``examples``."""

import os
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"

# Runs a verb or a script with fewer systems than a recipe compares: those whose names begin as the
# regular expression KEPT names; with UNDRAWN no picture is drawn.
COMPARE = """
import os
import re
import runpy
import sys
from pathlib import Path

from fairseq_hrt.cli.main import main

if os.environ.get("UNDRAWN"):
    from matplotlib.figure import Figure

    from fairseq_hrt.evaluation import length, picture

    picture.draw = length.draw_by_length = lambda *given: [path.touch() for path in given[-1]]
    Figure.savefig = lambda figure, path: path.touch()
words = []
for word in sys.argv[1:]:
    if word.startswith("name=") and not re.match(f"name=({os.environ['KEPT']})", word):
        # Its flag.
        words.pop()
    else:
        words.append(word)
if words[0] == "benchmark":
    sys.exit(main(words))
sys.argv = words
sys.path[0] = str(Path(words[0]).parent)
runpy.run_path(words[0], run_name="__main__")
"""

# Bash takes 2 ms for what a fork of a program takes 200 for.
COPIED = {
    "python": """case $1 in
        */first_lines.py) gzip -cdf "$2" | sed -n "1,${4:-9999}p" | gzip -n; return ;;
        */tokenize_text.py) gzip -cdf "${@: -1}"; return ;;
    esac; """,
    "subword-nmt": 'if [ "$1" = apply-bpe ]; then cp "$5" "$7"; return; fi; ',
}


def begun(function, first):
    """A function of the shell that does something first."""
    return function.replace("{", "{ " + first, 1)


def copied(functions):
    """The functions of a shell with commands that copy the text instead of making words of it and
    subwords of these; for tests about something else."""
    own = {f"BASH_FUNC_{command}%%": first for command, first in COPIED.items()}
    return {**functions, **{name: begun(functions[name], first) for name, first in own.items()}}


def bash(script, *arguments, cwd=ROOT, check=True, limit=900, **environment):
    """The output of a script, run with these variables; ``limit``: seconds after which it counts as
    waiting for ever."""
    # The caller's own settings must not change what a recipe does.
    names = ("PATH", "HOME", "LANG", "TMPDIR", "VIRTUAL_ENV")
    inherited = {name: os.environ[name] for name in names if name in os.environ}
    environment = {**inherited, "OMP_NUM_THREADS": "1", **environment}
    result = subprocess.run(
        ["bash", str(script), *arguments],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=limit,
    )
    if check and result.returncode:
        raise AssertionError(f"{script} failed:\n{result.stdout[-3000:]}\n{result.stderr[-3000:]}")
    return result


def until(true, seconds=30):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)
