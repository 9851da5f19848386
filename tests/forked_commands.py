"""Commands of this environment in forks of a process that has imported PyTorch and fairseq already.

A command that starts from nothing spends three seconds of a processor on imports and on fairseq's
250 options, more than most tests need for the rest. The forks run the same entry points with
arguments, working folder, standard streams and exit status of their own; what is about the start
itself (environment, ``python -c``, a kill) must be run as a process of its own.

There are two such processes: only commands that name the plugin are forks of one that has it.

    with ForkedCommands() as commands:
        finished = commands.run("fairseq-train", ["data", "--cpu"])
"""

import gc
import importlib
import importlib.metadata
import io
import json
import os
import runpy
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

# What every command of fairseq imports; its own modules set up the log when they are imported.
COMMON = (
    "fairseq.models",
    "fairseq.tasks",
    "fairseq.trainer",
    "fairseq.options",
    "fairseq.scoring",
    "fairseq.dataclass.initialize",
    "fairseq.logging.progress_bar",
    "hydra.core.override_parser.overrides_parser",
    "torch.utils.data",
)


class ForkedCommands:
    """Starts the process on first use; use as a context manager."""

    def __init__(self) -> None:
        self._servers: Dict[bool, subprocess.Popen] = {}

    def __enter__(self) -> "ForkedCommands":
        return self

    def __exit__(self, *_: object) -> None:
        for server in self._servers.values():
            server.stdin.close()
            server.wait()

    def run(
        self, name: str, arguments: Sequence[str], *, cwd: Optional[str] = None, stdin: str = ""
    ) -> subprocess.CompletedProcess:
        """Runs a console script; with name ``python`` a module (arguments ``-m module …``) or a file of Python code.

        Whatever it or its own children write to descriptors 1 and 2 is its output.
        """
        server = self._server(names_plugin(name, arguments))
        with tempfile.TemporaryDirectory() as folder:
            streams = [str(Path(folder) / stream) for stream in ("stdin", "stdout", "stderr")]
            Path(streams[0]).write_text(stdin)
            request = {
                "name": name,
                "arguments": list(arguments),
                "cwd": cwd or os.getcwd(),
                "streams": streams,
                "composed": str(Path(folder) / "composed"),
            }
            print(json.dumps(request), file=server.stdin, flush=True)
            answer = server.stdout.readline()
            if not answer:
                raise AssertionError(f"the process that runs {name} is gone: exit status {server.wait()}")
            # As text=True would: universal newlines.
            output, error = (Path(stream).read_text() for stream in streams[1:])
        return subprocess.CompletedProcess([name, *arguments], json.loads(answer), output, error)

    def _server(self, plugin: bool) -> subprocess.Popen:
        if plugin not in self._servers:
            self._servers[plugin] = subprocess.Popen(
                [sys.executable, __file__, *["plugin"] * plugin], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            )  # fmt: skip
        return self._servers[plugin]


def names_plugin(name: str, arguments: Sequence[str]) -> bool:
    """Whether a command would import the plugin, which must not be there for others."""
    if name == "fairseq-hrt" or list(arguments[:2]) == ["-m", "fairseq_hrt"]:
        return True
    return any(
        option == "--user-dir" and Path(value).name == "fairseq_hrt" for option, value in zip(arguments, arguments[1:])
    )


def serve(plugin: bool) -> None:
    """Answers requests from the standard input with exit statuses, until it ends.

    Args:
        plugin: whether the commands find the plugin imported.
    """
    for module in COMMON:
        importlib.import_module(module)
    if plugin:
        importlib.import_module("fairseq_hrt")
    import composed_configs

    composed_configs.install()
    # Forks share the memory of what no collection of theirs looks at.
    gc.freeze()
    scripts = {script.name: script for script in importlib.metadata.entry_points(group="console_scripts")}
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            os._exit(_run(request, scripts))
        _, status = os.waitpid(child, 0)
        composed = Path(request["composed"])
        asked = json.loads(composed.read_text()) if composed.exists() else []
        print(os.waitstatus_to_exitcode(status), flush=True)
        # While the test looks at what the command wrote.
        for name, overrides in asked:
            composed_configs.remember(name, overrides)


def _run(request: Dict[str, Any], scripts: Dict[str, importlib.metadata.EntryPoint]) -> int:
    """In the fork: the command's exit status, as Python's own end would give it."""
    for number, (path, flags) in enumerate(
        zip(request["streams"], (os.O_RDONLY, os.O_WRONLY | os.O_CREAT, os.O_WRONLY | os.O_CREAT))
    ):
        descriptor = os.open(path, flags, 0o600)
        os.dup2(descriptor, number)
        os.close(descriptor)
    # Not the parent's: it has read ahead, and buffers by lines.
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)))
    os.chdir(request["cwd"])
    name, arguments = request["name"], request["arguments"]
    try:
        _call(name, arguments, scripts)
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        status = 1
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            status = status or 120
    Path(request["composed"]).write_text(json.dumps(sys.modules["composed_configs"].asked))
    return status


def _call(name: str, arguments: List[str], scripts: Dict[str, importlib.metadata.EntryPoint]) -> None:
    if name == "python":
        if arguments[0].endswith(".py"):
            sys.argv = list(arguments)
            # In the place of the folder of this file, whose modules no command finds otherwise.
            sys.path[0] = str(Path(arguments[0]).parent)
            runpy.run_path(arguments[0], run_name="__main__")
            return
        flag, module, *rest = arguments
        if flag != "-m":
            raise ValueError(f"python {flag}: only python -m and files are run in a fork")
        sys.argv = [module, *rest]
        sys.path.insert(0, os.getcwd())
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        return
    script = scripts[name]
    sys.argv = [str(Path(sys.executable).with_name(name)), *arguments]
    sys.path[0] = str(Path(sys.executable).parent)
    sys.exit(script.load()())


if __name__ == "__main__":
    serve(sys.argv[1:] == ["plugin"])
