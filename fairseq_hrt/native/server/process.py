"""The process around the application: its socket, worker processes, signals, and connections that
would never end."""

import asyncio
import dataclasses
import functools
import http.client
import json
import math
import os
import signal
import socket
import sys
import tempfile
import threading
import time
from contextlib import suppress
from typing import Any, Dict, Optional

import h11
import uvicorn
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.supervisors import Multiprocess

from .application import check, create_application
from .hosts import is_loopback
from .log import write_in_background
from .metrics import forget_worker
from .parsing import StrictConnection
from .settings import Settings
from .systems import LoadTranslator, load_translator
from .worker import CANNOT_START, SETTINGS_VARIABLE

# Seconds in which the head of a request has to arrive.
HEAD_SECONDS = 10.0
# Bytes of the head of a request.
HEAD_BYTES = 1 << 16
# Bytes that are read at a time. As chunks of one byte they keep everybody waiting for some 50 ms;
# asyncio would read 16 times as many.
READ_BYTES = 1 << 14
FACTORY = "fairseq_hrt.native.server.worker:application_from_environment"


class ReadAhead(FlowControl):
    """Reads no more where a whole head waits already.

    uvicorn reads on whenever the application looks whether the client is still there, also while
    the next requests are there.
    """

    def __init__(self, transport: asyncio.Transport, connection: h11.Connection) -> None:
        super().__init__(transport)
        self._connection = connection

    def resume_reading(self) -> None:
        # Nobody waits for more then: h11 refuses a head that is incomplete at this size, and takes
        # a body as it comes.
        if len(self._connection.trailing_data[0]) <= HEAD_BYTES:
            super().resume_reading()


class Connection(H11Protocol, asyncio.BufferedProtocol):
    """A connection that is closed when it makes no progress, and holds little.

    uvicorn waits for ever for the rest of a request's head, for a body whose request has been
    answered already, and for a client that does not read its response. It also accepts any number
    of connections, or refuses, past the application, the requests of those that are too many.

    Args:
        time_limit: seconds of a request.
        most: connections; with as many, the one that has waited longest for a request makes room
            for another one.
    """

    def __init__(self, *arguments: Any, time_limit: float, most: int, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.conn = StrictConnection(h11.SERVER, HEAD_BYTES)
        self._time_limit, self._most = time_limit, most
        self._state: Any = None
        self._since = 0.0
        self._check: Optional[asyncio.TimerHandle] = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.flow = ReadAhead(transport, self.conn)
        self._look()
        if len(self.connections) >= self._most:
            self._make_room()

    def get_buffer(self, sizehint: int) -> bytearray:
        """Where asyncio puts what it reads."""
        self._read = bytearray(READ_BYTES)
        return self._read

    def buffer_updated(self, nbytes: int) -> None:
        self.data_received(bytes(self._read[:nbytes]))

    def connection_lost(self, exc: Optional[Exception]) -> None:
        if self._check is not None:
            self._check.cancel()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Answers what is not HTTP, where nothing has been answered yet, in the words of the other
        routes."""
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.abort()
            return
        content = json.dumps({"error": "Invalid HTTP request"}).encode()
        headers = [
            ("content-type", "application/json"),
            ("content-length", str(len(content))),
            ("connection", "close"),
        ]
        for event in (
            h11.Response(status_code=400, headers=headers, reason=b"Bad Request"),
            h11.Data(data=content),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event))
        self.transport.close()
        if self.cycle is not None and not self.cycle.response_complete:
            # Its body was wrong: the application waits for the rest, and must not answer again.
            self.cycle.disconnected = True
            self.cycle.message_event.set()

    @property
    def _busy(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _make_room(self) -> None:
        """Ends the connection that has been idle longest. Where all others are busy, the
        application answers this one's request with 503."""
        others = (
            other
            for other in self.connections
            if isinstance(other, Connection) and other is not self
        )
        idle = [other for other in others if not other._busy]
        if idle:
            oldest = min(idle, key=lambda other: other._since)
            # It is lost a moment later, when others may have come already.
            self.connections.discard(oldest)
            oldest.transport.abort()

    def _look(self) -> None:
        busy = self._busy
        state, now = (self.cycle, busy), self.loop.time()
        if state != self._state:
            self._state, self._since = state, now
        elif now - self._since > (2 * self._time_limit + HEAD_SECONDS if busy else HEAD_SECONDS):
            # close() would wait for what cannot be written
            self.transport.abort()
            return
        self._check = self.loop.call_later(HEAD_SECONDS / 4, self._look)


class Workers(Multiprocess):
    """uvicorn's worker processes: one that dies is replaced, unless it could not even start."""

    @property
    def failed(self) -> bool:
        """Whether a worker could not start."""
        return any(process.process.exitcode == CANNOT_START for process in self.processes)

    def keep_subprocess_alive(self) -> None:
        if self.failed:
            self.should_exit.set()
        else:
            before = {process.pid for process in self.processes}
            super().keep_subprocess_alive()
            for gone in before - {process.pid for process in self.processes}:
                if gone is not None:
                    forget_worker(gone)


def bound_socket(host: str, port: int) -> socket.socket:
    """A socket that holds the address; it is listened to when there is somebody to answer.

    Raises:
        ValueError: there is no such address, or it is taken.
    """
    try:
        # The protocol by its number: asyncio sends small answers at once (TCP_NODELAY) only where
        # it sees that it is TCP, else each takes 40 ms longer.
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP, flags=socket.AI_PASSIVE
        )[0]
        found = socket.socket(family, kind, protocol)
        # As asyncio does: the port of a server that has just ended is free.
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
    found.set_inheritable(True)
    return found


def server_options(settings: Settings) -> Dict[str, Any]:
    """uvicorn's options."""
    return {
        "http": functools.partial(
            Connection, time_limit=settings.time_limit, most=settings.max_connections
        ),
        "ws": "none",
        "access_log": False,
        "server_header": False,
        "date_header": False,
        "proxy_headers": False,
        "timeout_graceful_shutdown": math.ceil(settings.time_limit) + 1,
        "timeout_keep_alive": 5,
        "log_config": None,
        # Whoever sends what is not HTTP must not be able to fill the log.
        "log_level": "error",
    }


def serve(
    settings: Settings, host: str, port: int, workers: int, load: LoadTranslator = load_translator
) -> None:
    """Answers requests until SIGTERM, SIGHUP or SIGINT; what was accepted by then is answered.

    Prints one line with the address when the first request would be answered.

    Args:
        settings, host, port, workers: see ``fairseq-hrt serve``.
        load: see :func:`.application.create_application`; of one process, workers have the usual
            one.

    Raises:
        ValueError: a system cannot be loaded, or the address cannot be had.
    """
    check(settings)
    with bound_socket(host, port) as listening:
        if settings.allow_hosts is None and is_loopback(listening.getsockname()[0]):
            settings = dataclasses.replace(settings, allow_hosts=())
        shared = {"workers": workers, **server_options(settings)}
        if workers == 1:
            application = create_application(settings, load)
            application.state.server.load()
            write_in_background()
            _let_the_server_end()
            _announce(listening, host)
            uvicorn.Server(uvicorn.Config(application, **shared)).run(sockets=[listening])
            return
        with tempfile.TemporaryDirectory(prefix="fairseq-hrt-metrics-") as figures:
            os.environ.update(
                {SETTINGS_VARIABLE: settings.to_json(), "PROMETHEUS_MULTIPROC_DIR": figures}
            )
            write_in_background()
            supervisor = Workers(
                uvicorn.Config(FACTORY, factory=True, **shared), sockets=[listening]
            )
            _announce(listening, host)
            supervisor.run()
        if supervisor.failed:
            raise ValueError("a worker cannot start; the log above tells why")


def _let_the_server_end() -> None:
    """uvicorn ends its work at a signal and then raises it again: by then it has been obeyed."""

    def obeyed(number: int, frame: Any) -> None:
        return

    def hang_up(number: int, frame: Any) -> None:
        signal.raise_signal(signal.SIGTERM)

    signal.signal(signal.SIGTERM, obeyed)
    signal.signal(signal.SIGINT, obeyed)
    # Whoever started the process may have chosen to have it ignored (nohup).
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, hang_up)


def _announce(listening: socket.socket, host: str) -> None:
    """Prints the address as soon as a request is answered there."""
    address, port = listening.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    # Where all addresses are listened to, this machine's own is one of them.
    asked = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address, address)

    def wait() -> None:
        while not _answers(asked, port):
            time.sleep(0.02)
        with suppress(OSError, ValueError):
            sys.stdout.write(f"http://{shown}:{port}\n")
            sys.stdout.flush()

    threading.Thread(target=wait, name="announcement", daemon=True).start()


def _answers(address: str, port: int) -> bool:
    connection = http.client.HTTPConnection(address, port, timeout=5)
    try:
        # A name that is always answered to.
        connection.request("GET", "/health", headers={"Host": "localhost"})
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
