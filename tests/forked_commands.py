"""Commands of this environment in forks of a process that has imported PyTorch and fairseq already.

A command that starts from nothing spends three seconds of a processor on imports and on fairseq's
250 options, more than most tests need for the rest. The forks run the same entry points with
arguments, working folder, standard streams and exit status of their own; what is about the start
itself (environment, ``python -c``, a kill) must be run as a process of its own.

There are two such processes: only commands that name the plugin, and scripts, are forks of one that
has it, which is a fork of the other itself. Test processes that name the same folder share both.

    with shared_folder() as folder:
        commands = ForkedCommands(folder)
        finished = commands.run("fairseq-train", ["data", "--cpu"])
        subprocess.run(["bash", "examples/quickstart.sh"], env={**os.environ,
        **commands.of_a_shell()})
"""

import fcntl
import functools
import gc
import importlib
import io
import json
import os
import runpy
import select
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence

# Imports of every command of fairseq; its own modules set up the log when they are imported.
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
    # Imported later: by the first configuration and update, by data and BLEU.
    "torch._dynamo",
    "antlr4.LL1Analyzer",
    "numpy.random",
    "fairseq.binarizer",
    "fairseq.libbleu",
    "fairseq.quantization_utils",
)
# Tokenising needs it, with all its tables, for each file of each recipe.
TEXT = ("sacremoses",)


@contextmanager
def shared_folder() -> Iterator[Path]:
    """A folder whose :class:`ForkedCommands` share their processes, which end with it."""
    # Paths of sockets have a hundred bytes at most.
    with tempfile.TemporaryDirectory(prefix="forks", ignore_cleanup_errors=True) as name:
        os.mkfifo(Path(name, "alive"))
        # Read by the processes, whose input ends when nobody holds it open for writing any more.
        held = os.open(Path(name, "alive"), os.O_RDWR)
        try:
            yield Path(name)
        finally:
            os.close(held)


class ForkedCommands:
    """Starts the processes on first use, where no other one with this folder has.

    Args:
        folder: of :func:`shared_folder`.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._server: Optional[subprocess.Popen] = None

    def run(
        self, name: str, arguments: Sequence[str], *, cwd: Optional[str] = None, stdin: str = "",
        environment: Optional[Mapping[str, str]] = None,
    ) -> subprocess.CompletedProcess:  # fmt: skip
        """Runs a console script; with name ``python`` a module (arguments ``-m module …``) or a
        file of Python code; ``environment``: variables besides those of this process.

        Whatever it or its own children write to descriptors 1 and 2 is its output.
        """
        with ExitStack() as stack:
            streams = [stack.enter_context(tempfile.TemporaryFile("w+")) for _ in range(3)]
            streams[0].write(stdin)
            streams[0].seek(0)
            status = self.start(name, arguments, streams, cwd=cwd, environment=environment).wait()
            # As text=True would: universal newlines.
            for stream in streams[1:]:
                stream.seek(0)
            return subprocess.CompletedProcess(
                [name, *arguments], status, *(stream.read() for stream in streams[1:])
            )

    def start(
        self,
        name: str,
        arguments: Sequence[str],
        streams: Sequence[Any],
        *,
        cwd: Optional[str] = None,
        environment: Optional[Mapping[str, str]] = None,
    ) -> "Started":
        """:meth:`run`, without waiting; ``streams``: files for the descriptors 0 to 2."""
        self._serve()
        descriptors = [stream.fileno() for stream in streams]
        variables = {**os.environ, **environment} if environment else None
        return Started(self._folder, name, arguments, descriptors, cwd or os.getcwd(), variables)

    def command(self, name: str) -> List[str]:
        """The beginning of a command line for other programs that start processes: arguments and
        variables are those of the process, which waits for its fork."""
        self._serve()
        return [sys.executable, "-S", "-E", __file__, str(self._folder), name]

    def of_a_shell(
        self, more: Optional[Mapping[str, str]] = None, *, python: str = ":"
    ) -> Dict[str, str]:
        """Variables by which bash and the scripts that it runs take forks for the commands.

        Args:
            more: by the name of a command, arguments that it gets besides.
            python: what bash does before it starts python; it may set other arguments.
        """
        names = [name for name in _scripts() if name.startswith(("fairseq-", "subword-nmt"))]
        start = f'{shlex.join(self.command("{}"))} "$@"'
        # Whatever python runs besides modules and files does not start with them.
        functions = {
            name: f"() {{ {start.format(name)} {(more or {}).get(name, '')}\n}}" for name in names
        }
        program = f'case $1 in -m|*.py) {start.format("python")};; *) command python "$@";; esac'
        functions["python"] = f"() {{ {python}; {program}\n}}"
        return {f"BASH_FUNC_{name}%%": body for name, body in functions.items()}

    def _serve(self) -> None:
        if self._server:
            return
        with open(self._folder / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if Path(_socket(self._folder, True)).exists():
                return
            with open(self._folder / "alive") as alive:
                self._server = subprocess.Popen(
                    [sys.executable, __file__, str(self._folder)],
                    stdin=alive, stdout=subprocess.PIPE, text=True,
                    env={**os.environ, "OMP_NUM_THREADS": "1"},
                )  # fmt: skip
            if not self._server.stdout.readline():
                raise AssertionError(f"no forks: exit status {self._server.wait()}")


class Started:
    """A command that runs in a fork.

    Attributes:
        pid: of its process.
    """

    def __init__(
        self, folder: Path, name: str, arguments: Sequence[str], descriptors: Sequence[int],
        cwd: str, environment: Optional[Mapping[str, str]] = None,
    ) -> None:  # fmt: skip
        self._connection = socket.socket(socket.AF_UNIX)
        self._connection.connect(_socket(folder, names_plugin(name, arguments)))
        request = {
            "name": name,
            "arguments": list(arguments),
            "cwd": cwd,
            "environment": environment,
        }
        socket.send_fds(self._connection, [b"\n"], list(descriptors))
        self._answers = self._connection.makefile("rw")
        print(json.dumps(request), file=self._answers, flush=True)
        self.pid = int(self._answers.readline())

    def wait(self, limit: Optional[float] = None) -> int:
        """Its exit status; negative: the signal that has ended it.

        Raises:
            TimeoutError: after so many seconds, and the command is killed.
        """
        self._connection.settimeout(limit)
        try:
            answer = self._answers.readline()
        except TimeoutError:
            os.kill(self.pid, signal.SIGKILL)
            raise
        if not answer:
            raise AssertionError("the process that waits for the command is gone")
        self._answers.close()
        self._connection.close()
        return int(answer)


def _socket(folder: Path, plugin: bool) -> str:
    return str(folder / ("plugin" if plugin else "fairseq"))


@functools.cache
def _scripts() -> Dict[str, Any]:
    """The entry points of console scripts by name."""
    # Takes longer than all that the start of a command by a shell needs.
    from importlib.metadata import entry_points

    return {script.name: script for script in entry_points(group="console_scripts")}


def names_plugin(name: str, arguments: Sequence[str]) -> bool:
    """Whether a command would import the plugin, which must not be there for others."""
    if name == "fairseq-hrt" or list(arguments[:2]) == ["-m", "fairseq_hrt"]:
        return True
    # Most scripts of the examples import it.
    if name == "python" and arguments[0].endswith(".py"):
        return True
    return any(
        option == "--user-dir" and Path(value).name == "fairseq_hrt"
        for option, value in zip(arguments, arguments[1:])
    )


def serve(folder: Path) -> None:
    """Answers requests at both sockets of a folder until the standard input ends."""
    for module in (*COMMON, *TEXT):
        importlib.import_module(module)
    import composed_configs

    composed_configs.install()
    listeners = [socket.socket(socket.AF_UNIX) for _ in range(2)]
    for plugin, listener in enumerate(listeners):
        listener.bind(_socket(folder, bool(plugin)))
        listener.listen()
    print("ready", flush=True)
    # Forks share the memory of what no collection of theirs looks at.
    gc.freeze()
    child = os.fork()
    plugin = child == 0
    # Who waits for an answer learns from it when the process is gone.
    listeners.pop(not plugin).close()
    if plugin:
        importlib.import_module("fairseq_hrt.cli.child_process").run_module = run_module_in_fork
        # With matplotlib, which takes a second.
        importlib.import_module("fairseq_hrt.evaluation.picture")
        gc.freeze()
    _serve_at(listeners[0], Path(_socket(folder, plugin) + ".asked"))
    if not plugin:
        with suppress(ChildProcessError):
            os.waitpid(child, 0)


def _serve_at(listener: socket.socket, remembered: Path) -> None:
    scripts = _scripts()
    remembered.mkdir()
    while listener in select.select([listener, sys.stdin], [], [])[0]:
        connection, _ = listener.accept()
        for asked in remembered.iterdir():
            for name, overrides in json.loads(asked.read_text()):
                sys.modules["composed_configs"].remember(name, overrides)
            asked.unlink()
        if os.fork() == 0:
            listener.close()
            _answer(connection, scripts, remembered)
            os._exit(0)
        connection.close()
        # Those that have ended.
        with suppress(ChildProcessError):
            while os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG):
                pass


def _answer(connection: socket.socket, scripts: Dict[str, Any], remembered: Path) -> None:
    """Runs a command and waits for it, in a process of its own."""
    _, descriptors, *_ = socket.recv_fds(connection, 1, 3)
    answers = connection.makefile("rw")
    request = json.loads(answers.readline())
    child = os.fork()
    if child == 0:
        answers.close()
        connection.close()
        status = _run(request, descriptors, scripts)
        asked = sys.modules["composed_configs"].asked
        # Complete when it is seen.
        written = remembered.with_name(f"{os.getpid()}.asked")
        written.write_text(json.dumps(asked))
        written.rename(remembered / written.name)
        os._exit(status)
    print(child, file=answers, flush=True)
    _, status = os.waitpid(child, 0)
    with suppress(OSError):
        print(os.waitstatus_to_exitcode(status), file=answers, flush=True)


def _run(
    request: Dict[str, Any],
    descriptors: Sequence[int],
    scripts: Dict[str, Any],
) -> int:
    """In the fork: the command's exit status, as Python's own end would give it."""
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    # Not the parent's: it has read ahead, and buffers by lines.
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)))
    os.chdir(request["cwd"])
    if request["environment"] is not None:
        os.environ.clear()
        os.environ.update(request["environment"])
        sys.path[1:1] = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
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
    return status


def _call(name: str, arguments: List[str], scripts: Dict[str, Any]) -> None:
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


def run_module_in_fork(module: str, arguments: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    """``child_process.run_module`` without its start from nothing: ``fairseq-hrt distill`` runs
    ``fairseq-preprocess`` by it."""
    with ExitStack() as stack:
        streams = [stack.enter_context(tempfile.TemporaryFile("w+")) for _ in range(3)]
        child = os.fork()
        if child == 0:
            request = {"name": "python", "arguments": ["-m", module, *arguments]}
            request.update(cwd=os.getcwd(), environment=None)
            os._exit(_run(request, [os.dup(stream.fileno()) for stream in streams], {}))
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        for stream in streams:
            stream.seek(0)
        return subprocess.CompletedProcess(
            [module, *arguments], status, *(stream.read() for stream in streams[1:])
        )


def main(place: str, *command: str) -> int:
    """Serves; or, for a shell, runs a command in a fork, with this process's streams."""
    if not command:
        serve(Path(place))
        return 0
    started = Started(
        Path(place), command[0], command[1:], [0, 1, 2], os.getcwd(), dict(os.environ)
    )
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: os.kill(started.pid, number))
    status = started.wait()
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
