"""Runs the application in one or several processes: their socket, their signals, and the number of
files that they may open."""

import asyncio
import contextlib
import dataclasses
import logging
import multiprocessing
import multiprocessing.connection
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from typing import Any, Callable, List, Optional

from starlette.applications import Starlette

from ..io.files import WINDOWS
from ..io.progress import Doing
from .application import check, create_application
from .connections import LAST_SECONDS, Server
from .hosts import is_loopback
from .log import LOG_FORMAT, LOG_TIME, write_in_background
from .metrics import FOLDER_VARIABLE, forget_worker, reserve_space
from .settings import Settings
from .systems import LoadTranslator, load_translator

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

logger = logging.getLogger(__name__)

# Files that a process opens besides its connections: models, figures, the log, those of Python.
OTHER_FILES = 64
# Sockets that Windows can watch at a time (FD_SETSIZE of Python), and the seconds between two looks
# whether somebody has pressed Ctrl-C, which there interrupts no waiting.
WINDOWS_SOCKETS = 512
WINDOWS_LOOK = 0.5
# Status of a worker that cannot start.
CANNOT_START = 3
# The least and most seconds before a worker that has died is replaced, so that those that die at
# once take no core and fill no log.
RESTART_SECONDS, MOST_RESTART_SECONDS = 0.5, 30.0


def bound_socket(host: str, port: int) -> socket.socket:
    """Makes a socket that is bound to the address, but does not listen yet: models have to be
    loaded before clients may connect.

    Raises:
        ValueError: there is no such address, or it is in use.
    """
    try:
        # The protocol by its number: asyncio sends small answers at once (TCP_NODELAY) only where
        # it sees that it is TCP, else each takes 40 ms longer.
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP, flags=socket.AI_PASSIVE
        )[0]
        found = socket.socket(family, kind, protocol)
        # As asyncio does: the port of a server that has just ended is free. On Windows it always
        # is, and two servers would share one.
        if not WINDOWS:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            found.bind(address)
        except OSError:
            found.close()
            raise
    except (OSError, UnicodeError) as error:
        raise ValueError(
            f"--host {host} --port {port}: {getattr(error, 'strerror', None) or error}; give"
            " another --port or --host"
        ) from error
    return found


def connections_within_limits(wanted: int) -> int:
    """Returns the number of connections that this process can have open, at most ``wanted``; logs a
    warning if there are fewer. Raises the process's limit of open files as far as these connections
    need and the operating system permits."""
    if WINDOWS:
        possible = min(wanted, WINDOWS_SOCKETS - OTHER_FILES)
        if possible < wanted:
            logger.warning(
                "--max-connections %d: on Windows a process watches %d sockets, so it takes %d"
                " connections",
                wanted,
                WINDOWS_SOCKETS,
                possible,
            )
        return possible
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + OTHER_FILES
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return wanted
    soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    possible = max(1, min(wanted, soft - OTHER_FILES))
    if possible < wanted:
        logger.warning(
            "--max-connections %d: this process may open %d files (ulimit -n), so it takes %d"
            " connections",
            wanted,
            soft,
            possible,
        )
    return possible


def at_signals(stop: Callable[[], Any]) -> None:
    """Has ``stop`` called at SIGTERM, SIGINT and SIGHUP. The same signal a second time ends the
    process at once, unless it is a worker, which ends with its supervisor."""

    def obey(number: int, frame: Any) -> None:
        # A worker gets two: the one sent to its process group, and that of its supervisor.
        if multiprocessing.parent_process() is None:
            signal.signal(number, signal.SIG_DFL)
        stop()

    for name in ("SIGTERM", "SIGINT", "SIGHUP"):
        number = getattr(signal, name, None)
        # Whoever started the process may have chosen to have it ignored (nohup).
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, obey)


def loaded(settings: Settings, load: LoadTranslator = load_translator) -> Starlette:
    """Makes the application and loads its systems.

    Args:
        settings: the server's options.
        load: makes the translator of a bundle, see :func:`.application.create_application`.

    Raises:
        ValueError: a system cannot be loaded.
    """
    application = create_application(settings, load)
    application.state.server.load()
    return application


def answer(
    application: Starlette,
    settings: Settings,
    listening: socket.socket,
    started: Callable[[], None],
) -> None:
    """Answers requests until one of the signals of :func:`at_signals` comes, and then the requests
    that have already been sent.

    Args:
        application: the application, with its systems loaded.
        settings: the server's options, for its limits of time and connections.
        listening: a bound socket; closed at the end.
        started: called as soon as the server can answer requests.
    """
    write_in_background()
    if WINDOWS:
        # The default event loop of Windows has no add_reader(), by which Server accepts clients.
        asyncio.set_event_loop_policy(getattr(asyncio, "WindowsSelectorEventLoopPolicy")())  # noqa: B009 - mypy looks on Linux

    async def run() -> None:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()

        def end() -> None:
            # The loop may have ended already, at an earlier signal.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(stop.set)

        at_signals(end)
        looking = asyncio.create_task(_look_for_signals()) if WINDOWS else None
        server = Server(application, settings.time_limit, settings.max_connections)
        await server.serve(listening, stop, started)
        if looking is not None:
            looking.cancel()

    asyncio.run(run())
    application.state.server.close()


async def _look_for_signals() -> None:
    while True:
        await asyncio.sleep(WINDOWS_LOOK)


def work(settings: Settings, listening: socket.socket, supervisor: Any, number: int) -> None:
    """Runs a worker: one of several processes that answer requests at the same socket.

    Args:
        settings: the server's options.
        listening: the bound socket that all workers share.
        supervisor: a pipe to the process that started the worker; "started" is sent to it as soon
            as requests are answered.
        number: the worker's number, from 0; one that replaces a dead worker has that one's number.

    Raises:
        SystemExit: the worker cannot start; the log tells why.
    """
    _end_with_supervisor()
    logging.basicConfig(
        level=logging.INFO, stream=sys.stderr, format=LOG_FORMAT, datefmt=LOG_TIME, force=True
    )
    logging.getLogger("fairseq").setLevel(logging.WARNING)
    try:
        reserve_space(number, len(settings.systems))
        application = loaded(settings)
    except (ValueError, OSError) as error:
        logger.error("error: %s", " ".join(str(error).split()))
        sys.exit(CANNOT_START)
    answer(application, settings, listening, lambda: supervisor.send("started"))


def _end_with_supervisor() -> None:
    """Has this worker end when the process that started it has ended, even if it was killed. The
    worker then removes the folder of metrics, too, which that process would have removed."""
    supervisor = multiprocessing.parent_process()
    if supervisor is None:
        return

    def wait() -> None:
        # For the end of a pipe that the supervisor alone holds: the system closes it in any case.
        supervisor.join()
        shutil.rmtree(os.environ.get(FOLDER_VARIABLE, ""), ignore_errors=True)
        os._exit(1)

    threading.Thread(target=wait, name="supervisor", daemon=True).start()


def serve(
    settings: Settings, host: str, port: int, workers: int, load: LoadTranslator = load_translator
) -> None:
    """Answers requests until SIGTERM, SIGHUP or SIGINT; requests accepted by then are answered.

    Prints one line with the address as soon as the server can answer requests.

    Args:
        settings, host, port, workers: the options of ``fairseq-hrt serve``.
        load: makes the translator of a bundle, see :func:`.application.create_application`; used
            only with one worker; several workers use the default function.

    Raises:
        ValueError: a system cannot be loaded, or the address is not available.
    """
    check(settings)
    most = connections_within_limits(settings.max_connections)
    with bound_socket(host, port) as listening:
        address, port = listening.getsockname()[:2]
        if settings.allow_hosts is None and is_loopback(address):
            settings = dataclasses.replace(settings, allow_hosts=())
        settings = dataclasses.replace(settings, max_connections=most)

        def announce() -> None:
            with contextlib.suppress(OSError, ValueError):
                sys.stdout.write(f"http://{f'[{host}]' if ':' in host else host}:{port}\n")
                sys.stdout.flush()

        if workers == 1:
            with Doing("loading models"):
                application = loaded(settings, load)
            answer(application, settings, listening, announce)
        else:
            supervise(settings, listening, announce, workers)


class _Workers:
    """The worker processes of a server, each of which has a number, from 0. Those that die are
    replaced after a pause, which doubles with each that dies until one answers requests.

    Args:
        begin: called with a worker's number, starts its process and returns it.
        count: how many workers there are.
    """

    def __init__(
        self, begin: Callable[[int], multiprocessing.process.BaseProcess], count: int
    ) -> None:
        self._begin = begin
        self._running = {number: begin(number) for number in range(count)}
        self._missing: List[int] = []
        self._due, self._pause = 0.0, RESTART_SECONDS

    def wait(self, reader: Any) -> None:
        """Waits until ``reader``, the pipe to which workers and signal handlers write, has a
        message, a worker dies, or the pause before a replacement is over."""
        seconds = max(self._due - time.monotonic(), 0.0) if self._missing else None
        multiprocessing.connection.wait(
            [reader, *(one.sentinel for one in self._running.values())], seconds
        )

    def answering(self) -> None:
        """To be called when a worker has told that it answers requests."""
        self._pause = RESTART_SECONDS

    def replace(self) -> List[Optional[int]]:
        """Begins the replacements whose time has come; returns the exit codes of the workers that
        have died since the last call."""
        dead = {number: one for number, one in self._running.items() if one.exitcode is not None}
        for number in dead:
            forget_worker(number)
            del self._running[number]
        if dead:
            self._missing += dead
            self._due = time.monotonic() + self._pause
            self._pause = min(2 * self._pause, MOST_RESTART_SECONDS)
        elif self._missing and time.monotonic() >= self._due:
            missing, self._missing = self._missing, []
            self._running.update({number: self._begin(number) for number in missing})
        return [one.exitcode for one in dead.values()]

    def end(self, seconds: float) -> None:
        """Tells all workers to end, and kills those that still run after ``seconds`` seconds."""
        for process in self._running.values():
            process.terminate()
        for process in self._running.values():
            process.join(seconds)
            process.kill()
            process.join()


def supervise(
    settings: Settings, listening: socket.socket, announce: Callable[[], None], workers: int
) -> None:
    """Lets several processes answer requests, and replaces those that die, until a signal comes.

    Args:
        settings: the server's options.
        listening: the bound socket that the processes share.
        announce: called once, as soon as the first process answers requests.
        workers: the number of processes.

    Raises:
        ValueError: a worker cannot start, and no other one has started.
    """
    context = multiprocessing.get_context("spawn")
    # Tells that a worker has started, or that a signal has come.
    reader, writer = context.Pipe(duplex=False)

    def begin(number: int) -> multiprocessing.process.BaseProcess:
        process = context.Process(target=work, args=(settings, listening, writer, number))
        process.start()
        return process

    with tempfile.TemporaryDirectory(prefix="fairseq-hrt-metrics-") as figures:
        os.environ[FOLDER_VARIABLE] = figures
        at_signals(lambda: writer.send("stop"))
        processes = _Workers(begin, workers)
        answering = failed = False
        while not failed:
            processes.wait(reader)
            news = [reader.recv() for _ in iter(reader.poll, False)]
            if "stop" in news:
                break
            if news:
                processes.answering()
                if not answering:
                    announce()
                answering = True
            # Another one would fail in the same way, unless others have succeeded.
            failed = CANNOT_START in processes.replace() and not answering
        # Otherwise clients could still connect, to be reset when the last worker ends.
        listening.close()
        processes.end(settings.time_limit + LAST_SECONDS)
    if failed:
        raise ValueError("a worker cannot start; the log above tells why")
