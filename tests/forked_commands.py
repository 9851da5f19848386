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
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence

if __name__ != "__mp_main__":
    # Not in processes that a command spawns, which do not find it: they run this file, too.
    import fork_client

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
        return [sys.executable, "-I", "-S", fork_client.__file__, str(self._folder), name]

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
            if (self._folder / "plugin").exists():
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
        self._answers = self._connection.makefile("r")
        fork_client.ask(
            self._connection,
            str(folder),
            name,
            list(arguments),
            descriptors,
            cwd,
            environment or {},
        )
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


@functools.cache
def _scripts() -> Dict[str, Any]:
    """The entry points of console scripts by name."""
    # Takes longer than all that the start of a command by a shell needs.
    from importlib.metadata import entry_points

    return {script.name: script for script in entry_points(group="console_scripts")}


class Request(NamedTuple):
    """As :func:`fork_client.ask` sends it; without `environment` the command has the server's."""

    name: str
    arguments: List[str]
    cwd: str
    environment: Dict[str, str]
    descriptors: List[int]


def received(connection: socket.socket) -> Optional[Request]:
    """What somebody asks for; nothing from one who is gone already."""
    _, descriptors, *_ = socket.recv_fds(connection, 1, 3)
    with connection.makefile("rb") as sent:
        words = os.fsdecode(sent.read()).split("\0")
    # Of one that was killed while it asked, a part may have come.
    if len(descriptors) < 3 or words.pop() or len(words) < 3:
        for descriptor in descriptors:
            os.close(descriptor)
        return None
    cwd, name, count, *rest = words
    variables = dict(variable.split("=", 1) for variable in rest[int(count) :])
    return Request(name, rest[: int(count)], cwd, variables, descriptors)


def serve(folder: Path) -> None:
    """Answers requests at both sockets of a folder until the standard input ends."""
    for module in (*COMMON, *TEXT):
        importlib.import_module(module)
    import composed_configs

    composed_configs.install()
    composed_configs.remember("config", [])
    # 20 expressions of the Han characters, for each file of a recipe.
    sys.modules["sacremoses"].MosesTokenizer("zh")
    listeners = [socket.socket(socket.AF_UNIX) for _ in range(2)]
    for plugin, listener in enumerate(listeners):
        listener.bind(str(folder / fork_client.PROCESSES[plugin]))
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
    _serve_at(listeners[0], folder / f"{fork_client.PROCESSES[plugin]}.asked")
    if not plugin:
        with suppress(ChildProcessError):
            os.waitpid(child, 0)


def _serve_at(listener: socket.socket, remembered: Path) -> None:
    scripts = _scripts()
    remembered.mkdir()
    # Who waits, by the process that runs the command.
    waiting: Dict[int, socket.socket] = {}
    ended, signalled = os.pipe()
    for end in (ended, signalled):
        os.set_blocking(end, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(signalled)
    while sys.stdin not in (ready := select.select([listener, sys.stdin, ended], [], [])[0]):
        if ended in ready:
            os.read(ended, 4096)
            _answer(waiting)
        if listener not in ready:
            continue
        connection, _ = listener.accept()
        request = received(connection)
        if request is None:
            connection.close()
            continue
        _remember(remembered)
        child = os.fork()
        if child == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for own in (listener, connection, *waiting.values()):
                own.close()
            os.close(ended)
            os.close(signalled)
            os._exit(_run_once(request, scripts, remembered))
        for descriptor in request.descriptors:
            os.close(descriptor)
        waiting[child] = connection
        with suppress(OSError):
            connection.sendall(f"{child}\n".encode())


def _remember(folder: Path) -> None:
    """What commands that have ended had composed takes no time in those that follow."""
    for asked in folder.iterdir():
        for name, overrides in json.loads(asked.read_text()):
            sys.modules["composed_configs"].remember(name, overrides)
        asked.unlink()


def _run_once(request: Request, scripts: Dict[str, Any], remembered: Path) -> int:
    status = _run(request, scripts)
    # Complete when it is seen.
    written = remembered.with_name(f"{os.getpid()}.asked")
    written.write_text(json.dumps(sys.modules["composed_configs"].asked))
    written.rename(remembered / written.name)
    return status


def _answer(waiting: Dict[int, socket.socket]) -> None:
    """Tells those whose commands have ended how."""
    with suppress(ChildProcessError):
        while True:
            child, status = os.waitpid(-1, os.WNOHANG)
            if not child:
                return
            if child in waiting:
                with suppress(OSError), waiting.pop(child) as connection:
                    connection.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())


def _run(request: Request, scripts: Dict[str, Any]) -> int:
    """In the fork: the command's exit status, as Python's own end would give it."""
    for number, descriptor in enumerate(request.descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    # Not the parent's: it has read ahead, and buffers by lines.
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)))
    os.chdir(request.cwd)
    if request.environment:
        os.environ.clear()
        os.environ.update(request.environment)
        sys.path[1:1] = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    try:
        _call(request.name, request.arguments, scripts)
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
            descriptors = [os.dup(stream.fileno()) for stream in streams]
            words = ["-m", module, *arguments]
            os._exit(_run(Request("python", words, os.getcwd(), {}, descriptors), {}))
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        for stream in streams:
            stream.seek(0)
        return subprocess.CompletedProcess(
            [module, *arguments], status, *(stream.read() for stream in streams[1:])
        )


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
