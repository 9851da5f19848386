"""Runs a Python module in a process of its own that ends when this one does, even when this one is
killed.

Otherwise the children of a killed process keep running, and write into folders that the next run
cleans up and fills.
"""

import os
import runpy
import signal
import subprocess
import sys
from threading import Thread
from typing import List, Sequence

# "python -c" looks for modules in the current folder first: nothing that could lie there is
# imported before the path is set.
_PROGRAM = (
    "import sys; sys.path[:] = {path!r}; from fairseq_hrt.cli.child_process import run_in_child;"
    " run_in_child()"
)
_POSIX = hasattr(os, "killpg")


def run_module(module: str, arguments: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    """Like ``python -m module arguments``, with no input, and modules found where this process
    finds them.

    An exception ends the child (Ctrl-C among them), and on POSIX systems what the child has started
    too.

    Returns:
        Exit status and what it wrote, once it has ended.
    """
    # Python passes over entries that are no text.
    path: List[str] = [entry for entry in sys.path if isinstance(entry, str)]
    command = [sys.executable, "-c", _PROGRAM.format(path=path), module, *arguments]
    # The child waits for the end of a stream that nobody but this process can write: the system
    # closes it in any case.
    watched, held = os.pipe()
    try:
        with subprocess.Popen(
            command, stdin=watched, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            errors="replace", start_new_session=_POSIX
        ) as child:  # fmt: skip
            try:
                output, error = child.communicate()
            except BaseException:
                _kill(child)
                raise
    finally:
        os.close(watched)
        os.close(held)
    return subprocess.CompletedProcess(command, child.returncode, output, error)


def _kill(child: "subprocess.Popen[str]") -> None:
    # A child that has ended and was not asked about keeps its number; one that was asked about has
    # none any more.
    if child.returncode is None and _POSIX:
        os.killpg(child.pid, signal.SIGKILL)
    else:
        child.kill()


def run_in_child() -> None:
    """What the child does: watches over its parent, runs the module that the command line names."""
    watched = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    Thread(target=_end_with_parent, args=(watched,), daemon=True).start()
    module = sys.argv[1]
    sys.argv[1:] = sys.argv[2:]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _end_with_parent(watched: int) -> None:
    while os.read(watched, 1):
        pass
    if _POSIX:
        # With what it has started: the child leads a group of its own.
        os.killpg(0, signal.SIGKILL)
    os._exit(1)
