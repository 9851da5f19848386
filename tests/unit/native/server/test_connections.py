"""Connections as clients really make them: slow, endless, malformed. Each is answered or closed,
and the server continues."""

import contextlib
import json
import random
import socket
import threading
import time

import pytest

from fairseq_hrt.native.server import connections, process
from fairseq_hrt.native.server.connections import Connection

# Servers with models of their own.
pytestmark = pytest.mark.slow

QUESTION = json.dumps({"q": "ab cd", "source": "en", "target": "de"}).encode()
POST = b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
SECONDS = 20
# Connections.
MOST = 8


@pytest.fixture
def serving(make_client, listening, monkeypatch):
    """A function that starts a server with some limits in seconds, and returns its address."""
    with contextlib.ExitStack() as stack:

        def start(head=SECONDS, request=SECONDS, last=SECONDS):
            monkeypatch.setattr(connections, "HEAD_SECONDS", head)
            monkeypatch.setattr(connections, "LAST_SECONDS", last)
            application = make_client(time_limit=request, max_body=5000, max_connections=MOST).app
            return stack.enter_context(listening(application, request, MOST))[0]

        yield start


@pytest.fixture
def address(serving):
    """A server that waits longer than a busy machine needs."""
    return serving()


def talk(address, *parts, pause=0.0):
    """Everything that is answered to these parts until the connection is closed by the server."""
    with socket.create_connection(address, timeout=SECONDS) as connection:
        # Until the server has closed the connection.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            for part in parts:
                connection.sendall(part)
                if pause:
                    time.sleep(pause)
        found = b""
        with contextlib.suppress(ConnectionResetError):
            while part := connection.recv(65536):
                found += part
    return found


def status(found):
    return int(found.split(b" ", 2)[1]) if found else None


def answers(address):
    """Whether the server continues. A busy machine may need more than its limit for a request."""
    return any(status(talk(address, question())) == 200 for _ in range(20))


def question(body=QUESTION, length=None, head=b""):
    return (
        POST
        + head
        + b"Content-Length: %d\r\nConnection: close\r\n\r\n"
        % (len(body) if length is None else length)
        + body
    )


def test_a_request(address):
    found = talk(address, question())
    assert status(found) == 200 and found.endswith(b'{"translatedText":"ba dc"}')
    assert b"server:" not in found.lower()


def test_answers_are_sent_at_once(address, monkeypatch):
    """Head and body of an answer are two writes; the second one must not wait for the client's
    acknowledgement of the first."""
    seen = []
    made = Connection.connection_made

    def note(self, transport):
        seen.append(
            transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        )
        made(self, transport)

    monkeypatch.setattr(Connection, "connection_made", note)
    assert status(talk(address, question())) == 200 and all(seen) and seen


def test_a_head_that_does_not_end(serving):
    address = serving(head=0.4)
    assert talk(address) == b""
    assert talk(address, b"POST /transl") == b""
    # A byte now and then is not progress.
    start = time.monotonic()
    assert talk(address, POST, *[b"X"] * 10 * SECONDS, pause=0.1) == b""
    assert time.monotonic() - start < SECONDS / 2


def test_a_body_that_does_not_end(serving):
    address = serving(request=0.6)
    found = talk(address, question(length=100))
    assert status(found) == 408 and json.loads(found.rpartition(b"\r\n\r\n")[2]) == {
        "error": "The request did not arrive in time"
    }
    assert status(talk(address, question(length=4000), *[b"x"] * 12, pause=0.1)) == 408


def test_a_body_for_a_route_that_reads_none(serving):
    """What comes of it makes the time for the next request no longer."""
    address = serving(head=2)
    head = b"POST /nothing HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n"
    start = time.monotonic()
    assert status(talk(address, head, *[b"x"] * 10 * SECONDS, pause=0.1)) == 404
    assert time.monotonic() - start < SECONDS / 2


def test_too_much(address):
    assert status(talk(address, question(b"x" * 6000))) == 413
    # It is still sending when the limit is reached, and yet sees the answer.
    assert (
        status(talk(address, question(length=70000, body=b""), *[b"x" * 10000] * 7, pause=0.02))
        == 413
    )
    # Nobody waits for the rest of this one.
    assert status(talk(address, question(b"x" * 90000, length=10**12))) == 413
    assert status(talk(address, question(head=b"X: " + b"v" * 200000 + b"\r\n"))) == 400
    assert (
        status(
            talk(
                address, question(head=b"".join(b"X-%d: v\r\n" % number for number in range(20000)))
            )
        )
        == 400
    )


def test_connections_that_ask_nothing_make_room(address):
    with contextlib.ExitStack() as stack:
        idle = [
            stack.enter_context(socket.create_connection(address, timeout=SECONDS))
            for _ in range(MOST + 5)
        ]
        assert answers(address)
        closed = 0
        for connection in idle:
            connection.settimeout(0.05)
            with contextlib.suppress(TimeoutError):
                # Those that came first have gone.
                closed += not receive(connection)
        assert 6 <= closed <= 7
        for connection in idle[-3:]:
            connection.settimeout(SECONDS)
            connection.sendall(question())
            assert status(receive(connection)) == 200


def receive(connection):
    with contextlib.suppress(ConnectionResetError):
        return connection.recv(65536)
    return b""


def test_where_all_are_busy_no_other_one_is_answered(address, monkeypatch):
    """Requests whose bodies do not come are busy ones."""
    seen = threading.Semaphore(0)
    received = Connection.buffer_updated

    def note(self, nbytes):
        received(self, nbytes)
        seen.release()

    monkeypatch.setattr(Connection, "buffer_updated", note)
    with contextlib.ExitStack() as stack:
        busy = []
        for number in range(MOST + 2):
            busy.append(stack.enter_context(socket.create_connection(address, timeout=SECONDS)))
            busy[-1].sendall(question(length=100))
            # Before the next one comes: a connection that has not asked yet would make room for it.
            assert seen.acquire(timeout=SECONDS)
            if number >= MOST:
                # Head and body may come one after the other.
                refused = b"".join(iter(lambda: receive(busy[-1]), b""))
                assert status(refused) == 503 and refused.endswith(
                    b'{"error":"Too many requests at once"}'
                )
        for connection in busy[:MOST]:
            connection.sendall(b"x" * 100)
            assert status(receive(connection)) == 400
    assert answers(address)


def test_what_is_no_http(address):
    for text in (
        b"\x16\x03\x01\x00",
        b"GET / HTTP/9\r\n\r\n",
        b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n",
    ):
        found = talk(address, text + b"\r\n\r\n")
        assert status(found) == 400 and found.endswith(b'{"error":"Invalid HTTP request"}')
    # After the head, when the application waits for the body already.
    found = talk(address, POST + b"Transfer-Encoding: chunked\r\n\r\n", b"zz\r\n", pause=0.05)
    assert found.count(b"HTTP/1.1") == 1 and status(found) == 400
    assert b"307" not in talk(
        address, b"POST /translate/ HTTP/1.1\r\nHost: elsewhere\r\nConnection: close\r\n\r\n"
    )


def test_whatever_is_sent_is_answered_or_closed(serving, caplog):
    address = serving(head=0.4, request=0.6)
    source = random.Random(5)
    found = []
    for _ in range(60):
        text = bytearray(
            question(
                source.choice(
                    [QUESTION, b"[" * 4000, b"\xff" * 9, b"", b'{"q": 1e999}', b'{"q":' * 500]
                )
            )
        )
        for _ in range(source.choice([0, 0, 1, 3, 30])):
            place = source.randrange(len(text))
            text[place : place + source.choice([0, 1, 1, 5])] = bytes(
                source.choices(range(256), k=source.choice([0, 1, 2]))
            )
        found.append(status(talk(address, bytes(text), b"\r\n\r\n")))
    assert set(found) <= {200, 400, 404, 405, 408, 413, 415, None}
    assert found.count(200) > 1 and found.count(400) > 13
    assert answers(address)
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize("read", [True, False])
@pytest.mark.parametrize(
    "again", [HEALTH * 1000, HEALTH[:-2] + b"X: " + b"x" * 40000 + b"\r\n\r\n"]
)
def test_requests_are_not_kept_before_their_turn(serving, read, again):
    """A client that asks before it is answered is closed after an answer, whether it reads that or
    not; it may ask the rest again."""
    address = serving(last=0.1)
    closed, deadline = False, time.monotonic() + SECONDS
    with socket.create_connection(address, timeout=SECONDS) as connection:
        while not closed and time.monotonic() < deadline:
            try:
                connection.sendall(again)
                closed = read and not connection.recv(1)
            except (BrokenPipeError, ConnectionResetError):
                closed = True
    assert closed and answers(address)


@pytest.mark.parametrize(
    "sent, expected",
    [
        (question() + b"x" * 10**6, 200),
        (b"x" * 10**6, 400),
        (HEALTH[:-2] + b"X: " + b"x" * 10**6, 400),
        (question(b"x" * 10**6), 413),
    ],
)
def test_who_is_still_sending_sees_the_answer(address, sent, expected):
    """A connection that is closed before all is read is reset, and the answer may be lost."""
    for _ in range(3):
        with socket.create_connection(address, timeout=SECONDS) as connection:
            connection.sendall(sent)
            found = b"".join(iter(lambda: connection.recv(65536), b""))
        assert status(found) == expected


def test_one_request_after_the_other(address):
    """With bodies, long heads, and bodies that nobody wants."""
    long = json.dumps({"q": "ab", "source": "en", "target": "de", "secret": "x" * 4000}).encode()
    kinds = (
        (HEALTH, 200),
        (HEALTH[:-2] + b"X: " + b"x" * 50000 + b"\r\n\r\n", 200),
        (POST + b"Content-Length: %d\r\n\r\n" % len(long) + long, 200),
        (
            POST
            + b"Transfer-Encoding: chunked\r\n\r\n"
            + b"%x;y=z\r\n%s\r\n" % (len(long), long)
            + b"0\r\nTrailer: %s\r\n\r\n" % long,
            200,
        ),
        (
            POST.replace(b"/translate", b"/nothing")
            + b"Content-Length: 90000\r\n\r\n"
            + b"x" * 90000,
            404,
        ),
        (HEALTH.replace(b"GET", b"HEAD"), 200),
    )
    with socket.create_connection(address, timeout=SECONDS) as connection:
        for request, expected in kinds * 5:
            connection.sendall(request)
            head, _, body = receive(connection).partition(b"\r\n\r\n")
            assert status(head) == expected and b"connection: close" not in head
            assert bool(body) == (not request.startswith(b"HEAD"))


def test_a_client_that_wants_to_be_asked_for_the_body(address):
    head = POST + b"Expect: 100-Continue\r\nContent-Length: %d\r\n\r\n" % len(QUESTION)
    with socket.create_connection(address, timeout=SECONDS) as connection:
        connection.sendall(head)
        assert receive(connection) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(QUESTION)
        assert receive(connection).endswith(b'{"translatedText":"ba dc"}')


@pytest.mark.parametrize(
    "head, closes",
    [
        (POST.replace(b"HTTP/1.1\r\nHost: x", b"HTTP/1.0"), True),
        (POST.replace(b"HTTP/1.1", b"HTTP/1.0") + b"Connection: keep-alive\r\n", True),
        # With the wish for HTTP/2 some clients begin.
        (POST + b"Connection: Upgrade\r\nUpgrade: h2c\r\n", False),
    ],
)
def test_other_protocols_are_answered_in_this_one(address, head, closes):
    with socket.create_connection(address, timeout=SECONDS) as connection:
        connection.sendall(head + b"Content-Length: %d\r\n\r\n" % len(QUESTION) + QUESTION)
        found = receive(connection)
        assert status(found) == 200 and found.endswith(b'{"translatedText":"ba dc"}')
        assert (b"connection: close" in found) == closes
        connection.sendall(question())
        assert status(receive(connection)) == (None if closes else 200)


def test_no_way_to_elsewhere(address):
    found = talk(address, b"CONNECT evil.example:80 HTTP/1.1\r\nHost: evil.example\r\n\r\nrest")
    assert found.count(b"HTTP/1.1") == 1 and status(found) == 404


@pytest.mark.parametrize("hosts", [b"", b"Host: localhost\r\nHost: evil.example\r\n"])
def test_one_host_is_meant(address, hosts):
    found = talk(address, b"GET /health HTTP/1.1\r\n" + hosts + b"\r\n")
    assert status(found) == 400 and found.endswith(b'{"error":"Invalid HTTP request"}')


@pytest.mark.parametrize("target, host, found", [
    ("/health", "localhost", 200), ("HTTP://localhost/health?a", "evil.example", 200),
    ("http://evil.example/health", "localhost", 421), ("http://localhost?a", "localhost", 200),
    ("http://localhost//health", "localhost", 404),
])  # fmt: skip
def test_a_target_may_name_the_host(make_client, listening, target, host, found):
    """As proxies send it; then this host is the one that is asked."""
    with listening(make_client(allow_hosts=()).app, 20, MOST) as (address, _):
        head = f"GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
        assert status(talk(address, head.encode())) == found


def test_a_client_that_has_closed_its_side_is_answered(address, translator, monkeypatch):
    """Unless it takes long: then it has probably gone."""
    proceed = threading.Event()
    for request, expected in ((HEALTH, 200), (question(), 200), (question(), 499)):
        seconds = 0.2 if expected == 499 else SECONDS
        monkeypatch.setattr(connections, "HALF_CLOSED_SECONDS", seconds)
        with socket.create_connection(address, timeout=SECONDS) as connection:
            connection.sendall(request)
            connection.shutdown(socket.SHUT_WR)
            assert status(receive(connection)) == expected and not receive(connection)
        if request != HEALTH:
            translator.before = lambda lines: proceed.wait(SECONDS)
    proceed.set()


@pytest.mark.parametrize("most", [1, MOST])
def test_a_client_that_reads_no_answer(listening, monkeypatch, most):
    """It makes room for others, and does not stay for ever."""
    monkeypatch.setattr(connections, "HEAD_SECONDS", 2 if most > 1 else SECONDS)
    closed, lost = threading.Event(), Connection.connection_lost

    def note(self, exc):
        lost(self, exc)
        closed.set()

    monkeypatch.setattr(Connection, "connection_lost", note)

    async def application(scope, receive, send):
        body = b"x" * (10**8 if scope["path"] == "/long" else 1)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body})

    with listening(application, 0.2, most) as (address, _), socket.socket() as connection:
        connection.settimeout(SECONDS)
        connection.connect(address)
        connection.sendall(HEALTH.replace(b"health", b"long"))
        assert status(connection.recv(20)) == 200
        if most == 1:
            assert status(talk(address, HEALTH[:-2] + b"Connection: close\r\n\r\n")) == 200
        assert closed.wait(SECONDS)
        # Only what the system has taken comes.
        assert len(talk_on(connection)) < 5 * 10**7


def test_two_lengths(address):
    """Whichever of them is meant, the rest is not taken for another request."""
    smuggled = b"0\r\n\r\n" + HEALTH
    found = talk(
        address,
        POST
        + b"Content-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n" % len(smuggled)
        + smuggled,
    )
    assert (
        found.count(b"HTTP/1.1") == 1
        and status(found) == 400
        and found.endswith(b'{"error":"Invalid HTTP request"}')
    )


def test_small_chunks_keep_nobody_waiting(make_client, listening, monkeypatch):
    """Work of a piece is bounded: others are answered between two of them."""
    pieces = []
    received = Connection.buffer_updated

    def note(self, nbytes):
        pieces.append(nbytes)
        received(self, nbytes)

    monkeypatch.setattr(Connection, "buffer_updated", note)
    chunks = b"1\r\nx\r\n" * 20000 + b"0\r\n\r\n"
    with listening(make_client(max_body=5000).app, 60, MOST) as (address, _):
        asked = POST + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
        assert status(talk(address, asked + chunks)) == 413
    assert sum(pieces) > 100000 and max(pieces) <= connections.READ_BYTES


@pytest.mark.parametrize(
    "start, again",
    [
        (HEALTH[:-2] + b"X: ", b"x" * 1000),
        (HEALTH[:-2], b"X: y\r\n" * 100),
        (b"GET /", b"x" * 1000),
        (POST + b"Transfer-Encoding: chunked\r\n\r\n1;", b"x" * 1000),
        (POST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", b"X: y\r\n" * 100),
        (POST + b"Transfer-Encoding: chunked\r\n\r\n0\r\nX: ", b"y" * 1000),
    ],
)
def test_what_is_no_body_has_an_end(serving, monkeypatch, start, again):
    address = serving(last=0.1)
    held = []
    received = Connection.buffer_updated

    def note(self, nbytes):
        received(self, nbytes)
        held.append(self._pending)

    monkeypatch.setattr(Connection, "buffer_updated", note)
    closed, deadline = False, time.monotonic() + SECONDS
    with socket.create_connection(address, timeout=SECONDS) as connection:
        connection.sendall(start)
        while not closed and time.monotonic() < deadline:
            try:
                connection.sendall(again * 10)
            except (BrokenPipeError, ConnectionResetError):
                closed = True
    assert closed and max(held) <= connections.HEAD_BYTES + connections.READ_BYTES
    assert answers(address)


@pytest.mark.parametrize(
    "received",
    [
        HEALTH[:-2] + b"X:" + b" " * 60000 + b"\x00\r\n\r\n",
        POST + b"Transfer-Encoding: chunked\r\n\r\n1;" + b" " * 60000 + b"\n\r\n",
    ],
)
def test_blanks_take_no_time(address, received):
    """Expressions that divide them in all ways need 24 seconds for these."""
    start = time.monotonic()
    assert status(talk(address, received)) == 400
    assert time.monotonic() - start < SECONDS / 4


def test_all_that_was_asked_is_answered_in_the_end(make_client, listening, translator, monkeypatch):
    """Idle connections are closed, and nobody else can connect."""
    monkeypatch.setattr(connections, "LAST_SECONDS", 0.2)
    entered, proceed = threading.Event(), threading.Event()
    translator.before = lambda lines: (entered.set(), proceed.wait(SECONDS))
    with contextlib.ExitStack() as stack:
        address, stop = stack.enter_context(listening(make_client().app, 60, MOST))

        def connected(text):
            made = stack.enter_context(socket.create_connection(address, timeout=SECONDS))
            made.sendall(text)
            return made

        idle, busy, silent = connected(HEALTH), connected(question()), connected(b"")
        assert status(receive(idle)) == 200 and entered.wait(SECONDS)
        stop()
        assert [receive(idle), receive(silent)] == [b"", b""]
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address)
        proceed.set()
        assert status(talk_on(busy)) == 200


def test_who_has_connected_is_answered_in_the_end(listening):
    """Also where the server had no time to accept them."""
    entered, proceed = threading.Event(), threading.Event()

    async def application(scope, receive, send):
        entered.set()
        # Nothing else is done meanwhile.
        assert proceed.wait(SECONDS)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x"})

    with contextlib.ExitStack() as stack:
        address, stop = stack.enter_context(listening(application, 60, 2 * MOST))
        made = []
        for _ in range(MOST):
            made.append(stack.enter_context(socket.create_connection(address, timeout=SECONDS)))
            made[-1].sendall(HEALTH)
            assert entered.wait(SECONDS)
        stop()
        proceed.set()
        assert [status(talk_on(one)) for one in made] == [200] * MOST


def talk_on(connection):
    return b"".join(iter(lambda: receive(connection), b""))


def test_no_request_starts_a_thread(make_client, listening, monkeypatch):
    """Without memory that can last for ever, and the loop waits for it."""
    application = make_client().app
    long = json.dumps({"q": "ab cd. " * 600, "source": "en", "target": "de"}).encode()
    with listening(application, 60, MOST) as (address, _):

        def start(thread):
            raise RuntimeError("can't start new thread")

        monkeypatch.setattr(threading.Thread, "start", start)
        assert [status(talk(address, question(long))) for _ in range(3)] == [200] * 3


class NoFiles:
    """A socket that cannot accept anybody for a while, as if too many files were open."""

    def __init__(self, inner, times):
        self._inner, self.times = inner, times

    def accept(self):
        self.times -= 1
        if self.times >= 0:
            raise OSError(24, "Too many open files")
        return self._inner.accept()

    def __getattr__(self, name):
        return getattr(self._inner, name)


def test_exhausted_descriptors_are_told_once(make_client, listening, monkeypatch, caplog):
    """And the idle make room meanwhile."""
    bound, made = process.bound_socket, []

    @contextlib.contextmanager
    def without_files(host, port):
        with bound(host, port) as found:
            made.append(NoFiles(found, 0))
            yield made[0]

    monkeypatch.setattr(process, "bound_socket", without_files)
    monkeypatch.setattr(connections, "HEAD_SECONDS", 10 * SECONDS)
    with listening(make_client().app, 60, MOST) as (address, _):
        idle = socket.create_connection(address, timeout=SECONDS)
        idle.sendall(HEALTH)
        assert status(receive(idle)) == 200
        made[0].times = 5
        assert answers(address)
        assert receive(idle) == b""
        idle.close()
    (record,) = [one for one in caplog.records if one.name == connections.__name__]
    assert record.message == "clients have to wait: Too many open files"
