"""Connections as clients really make them: slow, endless, malformed. Each is answered or closed,
and the server continues."""

import contextlib
import json
import random
import socket
import threading
import time

import pytest
import uvicorn

from fairseq_hrt.native.server import process
from fairseq_hrt.native.server.settings import Settings

# Servers with models of their own.
pytestmark = pytest.mark.slow

QUESTION = json.dumps({"q": "ab cd", "source": "en", "target": "de"}).encode()
POST = b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
SECONDS = 20
# Connections.
MOST = 8


@pytest.fixture
def address(make_client, monkeypatch):
    """A listening server whose patience is short."""
    monkeypatch.setattr(process, "HEAD_SECONDS", 0.4)
    application = make_client(time_limit=0.6, max_body=5000, max_connections=MOST).app
    options = process.server_options(
        Settings(systems=(("unused", "unused"),), time_limit=0.6, max_connections=MOST)
    )
    server = uvicorn.Server(uvicorn.Config(application, lifespan="off", **options))
    with process.bound_socket("127.0.0.1", 0) as listening:
        found = listening.getsockname()
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        while not server.started:
            time.sleep(0.005)
        yield found
        server.should_exit = True
        thread.join(SECONDS)
        assert not thread.is_alive()


def talk(address, *parts, pause=0.0):
    """Everything that is answered to these parts until the connection is closed by the server."""
    with socket.create_connection(address, timeout=SECONDS) as connection:
        for part in parts:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
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
    made = process.Connection.connection_made

    def note(self, transport):
        seen.append(
            transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        )
        made(self, transport)

    monkeypatch.setattr(process.Connection, "connection_made", note)
    assert status(talk(address, question())) == 200 and all(seen) and seen


def test_a_head_that_does_not_end(address):
    assert talk(address) == b""
    assert talk(address, b"POST /transl") == b""
    # A byte now and then is not progress.
    assert talk(address, POST, *[b"X"] * 12, pause=0.1) == b""


def test_a_body_that_does_not_end(address):
    found = talk(address, question(length=100))
    assert status(found) == 408 and json.loads(found.rpartition(b"\r\n\r\n")[2]) == {
        "error": "The request did not arrive in time"
    }
    assert status(talk(address, question(length=4000), *[b"x"] * 12, pause=0.1)) == 408


def test_a_body_for_a_route_that_reads_none(address):
    head = b"POST /nothing HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n"
    assert status(talk(address, head, *[b"x"] * 12, pause=0.1)) == 404


def test_too_much(address):
    assert status(talk(address, question(b"x" * 6000))) == 413
    # It is still sending when the limit is reached, and yet sees the answer.
    assert (
        status(talk(address, question(length=70000, body=b""), *[b"x" * 10000] * 7, pause=0.02))
        == 413
    )
    # Nobody waits for the rest of this one.
    assert status(talk(address, question(b"x" * 90000, length=10**12))) in (413, None)
    assert status(talk(address, question(head=b"X: " + b"v" * 200000 + b"\r\n"))) == 400
    assert (
        status(
            talk(
                address, question(head=b"".join(b"X-%d: v\r\n" % number for number in range(20000)))
            )
        )
        == 400
    )


def test_connections_that_ask_nothing_make_room(address, monkeypatch):
    monkeypatch.setattr(process, "HEAD_SECONDS", SECONDS)
    with contextlib.ExitStack() as stack:
        idle = [
            stack.enter_context(socket.create_connection(address, timeout=SECONDS))
            for _ in range(MOST + 5)
        ]
        assert status(talk(address, question())) == 200
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
    received = process.Connection.data_received

    def note(self, data):
        received(self, data)
        seen.release()

    monkeypatch.setattr(process.Connection, "data_received", note)
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
        assert [status(receive(connection)) for connection in busy[:MOST]] == [408] * MOST
    assert status(talk(address, question())) == 200


def test_what_is_no_http(address):
    for text in (
        b"\x16\x03\x01\x00",
        b"GET / HTTP/9\r\n\r\n",
        b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n",
    ):
        found = talk(address, text + b"\r\n\r\n")
        assert status(found) == 400 and found.endswith(b'{"error": "Invalid HTTP request"}')
    # After the head, when the application waits for the body already.
    found = talk(address, POST + b"Transfer-Encoding: chunked\r\n\r\n", b"zz\r\n", pause=0.05)
    assert found.count(b"HTTP/1.1") == 1 and status(found) == 400
    assert b"307" not in talk(
        address, b"POST /translate/ HTTP/1.1\r\nHost: elsewhere\r\nConnection: close\r\n\r\n"
    )


def test_whatever_is_sent_is_answered_or_closed(address, caplog):
    source = random.Random(5)
    found = []
    for _ in range(90):
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
    assert found.count(200) > 2 and found.count(400) > 20
    assert status(talk(address, question())) == 200
    assert "Traceback" not in caplog.text


HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.mark.parametrize("read", [True, False])
@pytest.mark.parametrize(
    "again", [HEALTH * 1000, HEALTH[:-2] + b"X: " + b"x" * 40000 + b"\r\n\r\n"]
)
def test_requests_are_not_read_before_their_turn(address, monkeypatch, read, again):
    """Of a client that sends faster than it is answered, one head and a piece are held, whether it
    reads the answers or not."""
    held = []
    received = process.Connection.data_received

    def note(self, data):
        received(self, data)
        held.append(len(self.conn.trailing_data[0]))

    monkeypatch.setattr(process.Connection, "data_received", note)
    with socket.create_connection(address, timeout=0.1) as connection:
        if read:
            threading.Thread(target=talked, args=(connection,), daemon=True).start()
        deadline = time.monotonic() + 1.5
        while time.monotonic() < deadline:
            with contextlib.suppress(TimeoutError, BrokenPipeError, ConnectionResetError):
                connection.sendall(again)
    assert len(held) > 4 and max(held) <= process.HEAD_BYTES + process.READ_BYTES
    assert status(talk(address, question())) == 200


def talked(connection):
    """Reads until the connection ends."""
    with contextlib.suppress(OSError):
        while True:
            with contextlib.suppress(TimeoutError):
                if not connection.recv(1 << 16):
                    break


def test_all_requests_that_were_sent_at_once_are_answered(address):
    """More of them than are read ahead, with bodies, long heads, and bodies that nobody wants."""
    long = json.dumps({"q": "ab", "source": "en", "target": "de", "secret": "x" * 4000}).encode()
    kinds = (
        HEALTH,
        HEALTH[:-2] + b"X: " + b"x" * 50000 + b"\r\n\r\n",
        POST + b"Content-Length: %d\r\n\r\n" % len(long) + long,
        POST + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % len(long) + long + b"\r\n0\r\n\r\n",
        POST.replace(b"/translate", b"/nothing") + b"Content-Length: 90000\r\n\r\n" + b"x" * 90000,
    )
    found = talk(address, b"".join(kinds) * 20 + HEALTH * 4000 + question())
    expected = [200, 200, 200, 200, 404] * 20 + [200] * 4001
    assert [int(one[:3]) for one in found.split(b"HTTP/1.1 ")[1:]] == expected
    assert found.endswith(b'{"translatedText":"ba dc"}')


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
        and found.endswith(b'{"error": "Invalid HTTP request"}')
    )


def test_small_chunks_keep_nobody_waiting(address, monkeypatch):
    """Work of a piece is bounded: others are answered between two of them."""
    pieces = []
    received = process.Connection.data_received

    def note(self, data):
        pieces.append(len(data))
        received(self, data)

    monkeypatch.setattr(process.Connection, "data_received", note)
    talk(address, POST + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 20000)
    assert sum(pieces) > 100000 and max(pieces) <= process.READ_BYTES
