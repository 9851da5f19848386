"""Runs a Python module in a process of its own that ends when this one does, even when this one is killed.

What a killed process has started goes on otherwise, and writes into folders that the next run cleans up and fills.
"""

import json
import os
import runpy
import subprocess
import sys
from threading import Thread
from typing import Sequence

_PROGRAM = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from fairseq_hrt.child_process import run_in_child; run_in_child()"


def run_module(module: str, arguments: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    """Like ``python -m module arguments``, with no input, and modules found where this process finds them.

    Returns:
        Exit status and what it wrote, once it has ended.
    """
    # The child waits for the end of a stream that nobody but this process can write: the system closes it in any case.
    watched, held = os.pipe()
    try:
        return subprocess.run(
            [sys.executable, "-c", _PROGRAM, json.dumps(sys.path), module, *arguments],
            stdin=watched, capture_output=True, text=True, check=False, errors="replace",
        )  # fmt: skip
    finally:
        os.close(watched)
        os.close(held)


def run_in_child() -> None:
    """What the child does: watches over its parent, runs the module that the command line names."""
    Thread(target=_end_with_parent, daemon=True).start()
    module = sys.argv[2]
    sys.argv[1:] = sys.argv[3:]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _end_with_parent() -> None:
    while os.read(0, 1):
        pass
    os._exit(1)
