"""Runs a Python module in a child process that ends with its parent, even if that is killed.

A child that outlived its parent would still write into folders that the next run deletes and fills
again.
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
    """Runs ``python -m module arguments`` to its end, with an empty standard input and with this
    process's ``sys.path``.

    An exception in this process while it waits, such as Ctrl-C, kills the child, and on POSIX
    systems also the processes that the child has started.

    Returns:
        The child's exit status, standard output and standard error.
    """
    # Python ignores entries that are not strings.
    path: List[str] = [entry for entry in sys.path if isinstance(entry, str)]
    command = [sys.executable, "-c", _PROGRAM.format(path=path), module, *arguments]
    # The child waits for the end of a pipe that only this process can write to. However this
    # process ends, the system closes it.
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
    # Without a return code the child has not been waited for: its process id is still its own.
    if child.returncode is None and _POSIX:
        os.killpg(child.pid, signal.SIGKILL)
    else:
        child.kill()


def run_in_child() -> None:
    """The program of the child process: runs the module that the first command-line argument names,
    with the other arguments, and ends at once if the parent process ends."""
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
        # The child leads a process group: what it has started ends with it.
        os.killpg(0, signal.SIGKILL)
    os._exit(1)
