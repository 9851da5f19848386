"""An HTTP/1.1 server in front of the application: its connections take little memory, and are
closed when they make no progress.

Only public interfaces of asyncio and httptools are used. Existing servers do not withstand attacks,
as tests with 200 connections and all limits that they offer showed:

* uvicorn waits for ever for the rest of a head, for a body whose request has been answered, and for
  a client that reads no answers; 200 of these end its service. While it works on a request it keeps
  reading (500 MB in 10 seconds). With httptools a head may have any size; with h11 a head of spaces
  holds up all clients for 24 seconds.
* granian waits for ever for a client that reads no answers. 200 clients that come back when they
  are closed kept others waiting for more than 10 seconds.
* hypercorn and gunicorn take any number of connections, and wait for ever for answers to be read.
"""

import asyncio
import http
import logging
import re
import socket
import time
from typing import Any, Callable, List, Optional, Set, Tuple
from urllib.parse import unquote

import httptools
from starlette.types import ASGIApp, Message

logger = logging.getLogger(__name__)

# Seconds in which the head of a request has to arrive, with the unread rest of an answered request
# before it.
HEAD_SECONDS = 10.0
# Most bytes of the head of a request, of its trailers, and between two pieces of its body.
HEAD_BYTES = 1 << 16
# Most bytes of a connection that are read at a time; others have their turn between two reads.
READ_BYTES = 1 << 14
# Seconds for which a request is worked on after its client has closed its sending side: the client
# may still read, or have gone.
HALF_CLOSED_SECONDS = 1.0
# Seconds in which clients that have just connected may still send a request when the server ends;
# and for which a connection that is to be closed is read, if its client is still sending.
LAST_SECONDS = 1.0
# Clients that the system lets wait until they are accepted.
BACKLOG = 128
_CLOSE = (b"connection", b"close")
# The beginning of a target that names its host, as clients of proxies send it.
_ABSOLUTE = re.compile(rb"https?://([^/?]*)", re.IGNORECASE)
_PHRASES = {int(status): status.phrase.encode() for status in http.HTTPStatus}


class Request:
    """A request, as far as it has been read.

    Args:
        answered: True for the placeholder that a connection has before its first request.

    Attributes:
        target, headers: the request's target and headers, names of headers in lower case.
        keep_alive: whether the client allows the connection to stay open after the answer.
        body: the part of the body that has been read and the application has not taken yet.
        complete: whether the body has been read to its end.
        scope: the request's scope for ASGI; None until its head has been read to the end.
        answered: whether the request has its answer, so that the rest of its body is not needed.
    """

    def __init__(self, answered: bool = False) -> None:
        self.target = b""
        self.headers: List[Tuple[bytes, bytes]] = []
        self.body, self.complete, self.answered = bytearray(), answered, answered
        self.keep_alive = False
        self.scope: Any = None


class Connection(asyncio.BufferedProtocol):
    """A connection to a client, whose requests it answers one at a time. A request that comes
    while an earlier one is being answered is dropped, and the connection is closed after the answer
    to the earlier one.

    httptools (llhttp) parses requests: in linear time, and it refuses what can be read in two ways,
    such as ``Content-Length`` beside ``Transfer-Encoding``.

    Args:
        server: the server that has accepted the connection.

    Attributes:
        busy: whether the application is working on a request of this client.
        used: whether a request of this client has been answered.
        since: when the connection began to wait for its client, by :func:`time.monotonic`.
    """

    def __init__(self, server: "Server") -> None:
        self._server = server
        self._buffer = bytearray()
        self._parser: Any = httptools.HttpRequestParser(self)
        # The request that began last.
        self._request = Request(answered=True)
        # Bytes since the last head or part of a body.
        self._pending = 0
        # Received bytes are not valid HTTP; the client sends no more; nothing can be sent, either.
        self._wrong = self._ended = self._lost = False
        # Set when one of these changes or bytes are read; set while no answer is being sent.
        self._changed, self._sent = asyncio.Event(), asyncio.Event()
        self._sent.set()
        self._deadline: Optional[asyncio.TimerHandle] = None
        self.busy, self.used, self.since = False, False, time.monotonic()

    # ------------------------------------------------------------------ called by asyncio

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        # Whoever sends waits until the system has taken all of it.
        transport.set_write_buffer_limits(0)
        self._server.welcome(self)
        self._task = asyncio.ensure_future(self._serve())

    def get_buffer(self, sizehint: int) -> bytearray:
        self._buffer = bytearray(READ_BYTES)
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        if self._parser is None:
            return
        self._pending += nbytes
        self._feed(bytes(self._buffer[:nbytes]))
        if self._wrong or self._pending > HEAD_BYTES:
            self._wrong = True
            self._transport.pause_reading()
        self._buffer = bytearray()
        self._changed.set()

    def eof_received(self) -> bool:
        self._ended = True
        self._changed.set()
        # Keeps the transport open: the client may still read.
        return True

    def connection_lost(self, exc: Optional[Exception]) -> None:
        self._ended = self._lost = True
        # The parser refers to this connection.
        self._parser = None
        self._changed.set()
        self._sent.set()
        self._server.connections.discard(self)

    def pause_writing(self) -> None:
        self._sent.clear()

    def resume_writing(self) -> None:
        self._sent.set()

    # ------------------------------------------------------------------ called by httptools

    def on_message_begin(self) -> None:
        if not self._request.answered:
            raise ValueError("a request came before the previous one was answered")
        self._request = Request()

    def on_url(self, url: bytes) -> None:
        self._request.target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        # Trailers are not kept.
        if self._request.scope is None:
            self._request.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        request, version = self._request, self._parser.get_http_version()
        hosts = [name for name, _ in request.headers].count(b"host")
        if hosts > 1 or (hosts == 0 and version == "1.1"):
            raise ValueError("a request must have one Host header, or in HTTP/1.0 at most one")
        self._pending = 0
        request.keep_alive = version == "1.1" and self._parser.should_keep_alive()
        whole, target = _ABSOLUTE.match(request.target), request.target
        if whole is not None:
            # The target's host counts, not that of the header.
            target = b"/" + target[whole.end() :].removeprefix(b"/")
            others = [header for header in request.headers if header[0] != b"host"]
            request.headers = [*others, (b"host", whole[1])]
        path, _, query = target.partition(b"?")
        request.scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": version,
            "method": self._parser.get_method().decode("ascii"),
            "scheme": "http",
            "path": unquote(path.decode("latin-1")),
            "raw_path": path,
            "query_string": query,
            "root_path": "",
            "headers": request.headers,
        }

    def on_body(self, body: bytes) -> None:
        self._pending = 0
        # Little accumulates, since the application takes it at once.
        if not self._request.answered:
            self._request.body += body

    def on_message_complete(self) -> None:
        self._pending = 0
        self._request.complete = True

    # ------------------------------------------------------------------ one request after another

    @property
    def idle(self) -> bool:
        """Whether no request of the client is being answered, and no answer is being sent."""
        return not self.busy and self._sent.is_set()

    def close_within(self, seconds: float) -> None:
        """Closes the connection after some seconds; a later call replaces an earlier one."""
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = asyncio.get_running_loop().call_later(seconds, self.abort)

    def abort(self) -> None:
        """Closes the connection at once; the transport's close() would wait until everything is
        sent, which a client can prevent."""
        self._transport.abort()

    async def _serve(self) -> None:
        try:
            while not (self._server.stopping and self.used) and await self._answer_one():
                self.used = True
                # Whoever asks again and again must not keep others waiting.
                await asyncio.sleep(0)
            if self._wrong or not self._request.complete:
                await self._linger()
        finally:
            self.close_within(0)
            self._server.connections.discard(self)

    async def _linger(self) -> None:
        """Keeps reading for a moment after the answer: if the connection were closed while the
        client is still sending, the operating system would discard the answer."""
        self._parser = None
        self.close_within(LAST_SECONDS)
        if not self._lost:
            self._transport.write_eof()
            self._transport.resume_reading()
        while not self._ended:
            await self._change()

    def _feed(self, data: bytes) -> None:
        """Gives received bytes to the parser, which calls the methods ``on_…`` of this class. Sets
        ``_wrong`` if the bytes are not valid HTTP."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._wrong = True
        except httptools.HttpParserUpgrade as found:
            # The parser takes what follows for the other protocol. Some clients ask for HTTP/2 in
            # this way, and are answered in HTTP/1.1: a new parser gets the rest without Upgrade.
            request, method = self._request, self._parser.get_method()
            if method == b"CONNECT":
                self._wrong = True
                return
            request.answered = True
            lines = [b"%s %s HTTP/1.1" % (method, request.target)]
            lines += [b"%s: %s" % header for header in request.headers if header[0] != b"upgrade"]
            self._parser = httptools.HttpRequestParser(self)
            self._feed(b"\r\n".join([*lines, b"", data[found.args[0] :]]))

    async def _change(self) -> None:
        """Waits until the client has sent something or has ended its side of the connection."""
        self._changed.clear()
        await self._changed.wait()

    async def _answer_one(self) -> bool:
        """Waits for the next request and answers it. Returns whether the connection may stay open
        for another one."""
        self.since = time.monotonic()
        self.close_within(LAST_SECONDS if self._server.stopping else HEAD_SECONDS)
        while self._request.answered or self._request.scope is None:
            if self._ended:
                return False
            if self._wrong:
                return await self._refuse()
            await self._change()
        request = self._request
        self.busy = True
        self.close_within(self._server.seconds)
        answer = await self._ask(request)
        self.busy, self.since = False, time.monotonic()
        if self._wrong and not request.complete:
            return await self._refuse()
        # Its client may ask again as soon as it has the answer.
        request.answered = True
        return await self._send(
            answer, request.keep_alive and not self._wrong, request.scope["method"] == "HEAD"
        )

    async def _ask(self, request: Request) -> List[Message]:
        """Calls the application with a request; returns the messages of its answer."""
        answer: List[Message] = []
        expected = dict(request.headers).get(b"expect", b"").lower() == b"100-continue"
        taken = False

        async def receive() -> Message:
            nonlocal expected, taken
            if expected:
                expected = False
                self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            while taken or not (request.body or request.complete):
                if self._ended or (self._wrong and not taken):
                    if taken and not self._lost:
                        await asyncio.sleep(HALF_CLOSED_SECONDS)
                    return {"type": "http.disconnect"}
                await self._change()
            body, taken = bytes(request.body), request.complete
            request.body.clear()
            return {"type": "http.request", "body": body, "more_body": not taken}

        async def send(message: Message) -> None:
            answer.append(message)

        try:
            await self._server.application(request.scope, receive, send)
        except Exception as error:
            # Its message may hold the request's text.
            logger.error("a request failed: %s", type(error).__name__)
        return answer or [{"type": "http.response.start", "status": 500, "headers": [_CLOSE]}]

    async def _refuse(self) -> bool:
        """Answers bytes that are not valid HTTP with status 400 and an error in JSON, as the routes
        send it. Returns False: the connection has to be closed."""
        body = b'{"error":"Invalid HTTP request"}'
        headers = [(b"content-type", b"application/json")]
        start = {"type": "http.response.start", "status": 400, "headers": headers}
        return await self._send([start, {"type": "http.response.body", "body": body}], False, False)

    async def _send(self, answer: List[Message], keep_alive: bool, only_head: bool) -> bool:
        """Sends an answer and waits until the operating system has taken it.

        Args:
            answer: the ASGI messages of the answer, its start first.
            keep_alive: whether the request allows the connection to stay open.
            only_head: whether to leave out the body, as for HEAD requests.

        Returns:
            Whether the connection may stay open for another request.
        """
        headers = [*answer[0]["headers"]]
        body = b"".join(message.get("body", b"") for message in answer)
        keep_alive = keep_alive and _CLOSE not in headers and not self._server.stopping
        if not keep_alive and _CLOSE not in headers:
            headers.append(_CLOSE)
        if b"content-length" not in dict(headers):
            headers.append((b"content-length", b"%d" % len(body)))
        status = answer[0]["status"]
        lines = [b"HTTP/1.1 %d %s" % (status, _PHRASES.get(status, b""))]
        lines += [b"%s: %s" % header for header in headers]
        head = b"\r\n".join(lines) + b"\r\n\r\n"
        self._transport.write(head if only_head else head + body)
        await self._sent.wait()
        return keep_alive


class Server:
    """The HTTP server of a process, with its connections.

    Args:
        application: the ASGI application that answers requests.
        time_limit: most seconds that the application takes for a request, its body included.
        most: most open connections. A further one replaces the one that has been waiting for its
            client longest; if all are busy, the application refuses further requests.
    """

    def __init__(self, application: ASGIApp, time_limit: float, most: int) -> None:
        self.application, self._time_limit, self._most = application, time_limit, most
        # Most seconds for reading a request and sending its answer.
        self.seconds = 2 * time_limit + HEAD_SECONDS
        self.connections: Set[Connection] = set()
        # Clients that have been accepted and not been welcomed yet.
        self._beginning: Set[asyncio.Future[None]] = set()
        self.stopping = self._exhausted = False

    async def serve(
        self, listening: socket.socket, stop: asyncio.Event, started: Callable[[], None]
    ) -> None:
        """Answers requests until ``stop`` is set, and then those that have already been sent.

        Args:
            listening: a bound socket; closed at the end.
            stop: set by the caller when the server is to end.
            started: called as soon as requests are answered.
        """
        listening.listen(BACKLOG)
        listening.setblocking(False)
        self._listen(listening)
        started()
        await stop.wait()
        self.stopping = True
        # Connections that still wait to be accepted would be reset.
        for _ in range(BACKLOG):
            self._accept(listening)
        asyncio.get_running_loop().remove_reader(listening)
        listening.close()
        await asyncio.gather(*self._beginning)
        for connection in self.connections:
            if connection.idle:
                connection.close_within(0 if connection.used else LAST_SECONDS)
        deadline = time.monotonic() + self._time_limit + LAST_SECONDS
        while self.connections and time.monotonic() < deadline:
            await asyncio.sleep(0.01)

    def _listen(self, listening: socket.socket) -> None:
        if not self.stopping:
            asyncio.get_running_loop().add_reader(listening, self._accept, listening)

    def _accept(self, listening: socket.socket) -> None:
        """Accepts the next waiting client, if there is one."""
        try:
            client = listening.accept()[0]
        except (BlockingIOError, ConnectionError):
            # Another worker was faster, or the client has gone.
            return
        except OSError as error:
            # The servers of asyncio log a traceback for each client that waits, every second.
            if not self._exhausted:
                logger.error("clients have to wait: %s", error.strerror)
            self._exhausted = True
            self._make_room()
            loop = asyncio.get_running_loop()
            loop.remove_reader(listening)
            loop.call_later(0.05, self._listen, listening)
            return
        task = asyncio.ensure_future(self._begin(client))
        self._beginning.add(task)
        task.add_done_callback(self._beginning.discard)

    async def _begin(self, client: socket.socket) -> None:
        try:
            loop = asyncio.get_running_loop()
            await loop.connect_accepted_socket(lambda: Connection(self), client)
        except OSError:
            client.close()

    def welcome(self, connection: Connection) -> None:
        """Adds a new connection to :attr:`connections`; if ``most`` are open already, closes one
        that waits for its client (none if all are busy)."""
        if len(self.connections) >= self._most:
            self._make_room()
        self.connections.add(connection)

    def _make_room(self) -> None:
        """Closes the connection that has been waiting for its client longest; if all are busy,
        closes none."""
        idle = [one for one in self.connections if not one.busy]
        if idle:
            oldest = min(idle, key=lambda one: one.since)
            oldest.abort()
            # Its connection_lost() is called a moment later, when others may have come already.
            self.connections.discard(oldest)
