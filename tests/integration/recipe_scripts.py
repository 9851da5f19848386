"""Runs the shell recipes of ``examples``."""

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"


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
