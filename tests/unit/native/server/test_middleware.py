"""What all routes have in common: limits, answers to errors, headers, log."""

import asyncio
import json
import threading
from types import SimpleNamespace

import pytest
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Route

from fairseq_hrt.native.server.errors import RequestError
from fairseq_hrt.native.server.metrics import Metrics
from fairseq_hrt.native.server.middleware import HEADERS, add_headers, guard
from fairseq_hrt.native.server.settings import Settings

ASKED = {"q": "Good morning.", "source": "en", "target": "de"}
SCOPE = {
    "type": "http", "method": "POST", "path": "/translate", "query_string": b"", "headers": [],
    "http_version": "1.1",
}  # fmt: skip


def guarded(handler, route="/x", around=None, **settings):
    """A route with its middleware, as an ASGI application; ``around``: of other routes too."""
    around = around or guard(Settings(systems=(("a", "x"),), **settings), Metrics())
    return Route(route, handler, methods=["POST"], middleware=around(route)).app


async def answer(application, messages):
    """The response to the messages of a client, after which nothing comes."""
    left, sent = list(messages), []

    async def receive():
        return left.pop(0) if left else await asyncio.Event().wait()

    async def send(message):
        sent.append(message)

    await application(SCOPE, receive, send)
    start, body = sent
    headers = {name.decode(): value.decode() for name, value in start["headers"]}
    return SimpleNamespace(status_code=start["status"], headers=headers, body=body["body"])


def respond(handler, messages=({"type": "http.request", "body": b"hello"},), **settings):
    """The response of a guarded handler."""

    async def run():
        response = await answer(guarded(handler, **{"time_limit": 60, **settings}), messages)
        for _ in range(3):
            await asyncio.sleep(0)
        # Nothing follows the answer; the loop itself would end it.
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return response

    return asyncio.run(run())


async def echo(request):
    return PlainTextResponse(await request.body())


def test_the_handler_gets_the_whole_body():
    parts = [
        {"type": "http.request", "body": part, "more_body": part != b"c"}
        for part in (b"a", b"b", b"c")
    ]
    response = respond(echo, parts, max_body=3)
    assert (response.status_code, response.body) == (200, b"abc")
    assert {name: response.headers[name.lower()] for name in HEADERS} == HEADERS


@pytest.mark.parametrize("size", [4, 40, 100])
def test_a_long_body_is_refused_and_not_kept(size):
    """Of a very long one, of which nobody waits for the end."""
    parts = [
        {"type": "http.request", "body": b"x", "more_body": number < size - 1}
        for number in range(size)
    ]
    if size == 100:
        # The client would continue for ever: 16 times the limit is enough.
        parts = parts[:49]
    response = respond(echo, parts, max_body=3)
    assert (response.status_code, response.headers["connection"]) == (413, "close")
    assert json.loads(response.body) == {"error": "Request body exceeds the limit of 3 bytes"}


@pytest.mark.parametrize(
    "error, status, message",
    [
        (RequestError(429, "busy", {"Retry-After": "7"}), 429, "busy"),
        (KeyError("/a/path"), 500, "Internal server error"),
    ],
)
def test_errors_are_answered(caplog, error, status, message):
    async def fail(request):
        raise error

    response = respond(fail)
    assert (response.status_code, json.loads(response.body)) == (status, {"error": message})
    assert response.headers.get("retry-after") == ("7" if status == 429 else None)
    assert response.headers["cache-control"] == "no-store"
    # Where it happened stands in the log, and nothing that the request could have said.
    assert "/a/path" not in caplog.text and (
        "KeyError" in caplog.text and "in fail" in caplog.text
    ) == (status == 500)


@pytest.mark.parametrize("messages, settings, status", [
    ([{"type": "http.request"}], {"time_limit": 0.05}, 504),
    ([{"type": "http.request"}, {"type": "http.disconnect"}], {}, 499),
])  # fmt: skip
def test_work_for_nobody_is_given_up(messages, settings, status):
    given_up = []

    async def slow(request):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            given_up.append(True)
            raise

    assert respond(slow, messages, **settings).status_code == status
    assert given_up == [True]


def test_more_requests_than_connections_are_refused(caplog):
    caplog.set_level("INFO", logger="fairseq_hrt.access")

    async def run():
        metrics, proceed = Metrics(), asyncio.Event()

        async def wait(request):
            await proceed.wait()
            return PlainTextResponse("done")

        around = guard(Settings(systems=(("a", "x"),), time_limit=60, max_connections=2), metrics)
        routes = {route: guarded(wait, route, around) for route in ("/x", "/y")}

        def ask(route):
            return asyncio.ensure_future(answer(routes[route], [{"type": "http.request"}]))

        # All routes together.
        first = [ask("/x"), ask("/y")]
        await asyncio.sleep(0)
        refused = await asyncio.gather(ask("/x"), ask("/y"))
        proceed.set()
        answered = [
            *await asyncio.gather(*first),
            *await asyncio.gather(ask("/x"), ask("/y")),
        ]
        return refused, answered, metrics.exposition()[0].decode()

    refused, answered, figures = asyncio.run(run())
    assert [response.status_code for response in answered] == [200] * 4
    for response in refused:
        assert (response.status_code, json.loads(response.body)) == (
            503,
            {"error": "Too many requests at once"},
        )
        assert response.headers["connection"] == "close" and response.headers["retry-after"] == "1"
    assert 'fairseq_hrt_requests_total{route="/y",status="503"} 1.0' in figures
    assert sum(json.loads(record.message)["status"] == 503 for record in caplog.records) == 2


def test_a_slow_reader_takes_no_place_and_no_time():
    async def run():
        application = guarded(echo, max_connections=1, time_limit=0.2)
        sending, read = asyncio.Event(), asyncio.Event()
        messages = [{"type": "http.request", "body": b"slow"}]

        async def receive():
            return messages.pop() if messages else await asyncio.Event().wait()

        async def send(message):
            sending.set()
            await read.wait()

        slow = asyncio.ensure_future(application(SCOPE, receive, send))
        await sending.wait()
        other = await answer(application, [{"type": "http.request", "body": b"other"}])
        await asyncio.sleep(0.3)
        read.set()
        await slow
        return other

    assert asyncio.run(run()).status_code == 200


def test_an_error_takes_the_place_of_an_answer_that_has_begun():
    async def begun(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise RequestError(429, "busy")

    async def handler(request):
        return begun

    response = respond(handler)
    assert (response.status_code, json.loads(response.body)) == (429, {"error": "busy"})


def test_own_headers_stay():
    response = JSONResponse({}, headers={"Cache-Control": "max-age=9"})
    add_headers(response.headers)
    assert (
        response.headers["cache-control"] == "max-age=9"
        and response.headers["referrer-policy"] == "no-referrer"
    )


def test_a_body_that_does_not_come(make_client):
    client = make_client(time_limit=0.2)
    begun = [{"type": "http.request", "body": b"{", "more_body": True}]
    response = asyncio.run(answer(client.app, begun))
    assert (response.status_code, response.headers["connection"]) == (408, "close")


def test_nothing_is_decoded_for_a_client_that_has_gone(make_client, translator):
    client = make_client()
    entered, proceed = threading.Event(), threading.Event()
    translator.before = lambda lines: (entered.set(), proceed.wait(5))
    busy = threading.Thread(target=client.post, args=("/translate",), kwargs={"json": ASKED})
    busy.start()
    assert entered.wait(5)
    body = json.dumps({**ASKED, "q": "nobody reads this"}).encode()
    messages = [{"type": "http.request", "body": body}, {"type": "http.disconnect"}]
    assert asyncio.run(answer(client.app, messages)).status_code == 499
    proceed.set()
    busy.join(5)
    assert [lines for lines, _ in translator.batches] == [["Good morning."]]


def test_too_slow(make_client, translator):
    client = make_client(time_limit=0.2)
    proceed = threading.Event()
    translator.before = lambda lines: proceed.wait(5)
    response = client.post("/translate", json=ASKED)
    proceed.set()
    assert (response.status_code, response.json()) == (
        504,
        {"error": "The translation took too long: send less text at a time"},
    )
    # A busy machine may need more than the limit for any request; sooner or later it does not.
    assert any(client.post("/translate", json=ASKED).status_code == 200 for _ in range(100))


def test_foreign_hosts(make_client, caplog):
    """A page of somebody else whose name leads to this machine gets nothing, whatever it asks."""
    caplog.set_level("INFO", logger="fairseq_hrt.access")
    client = make_client(allow_hosts=("translate.example.org",))
    for host in ("localhost:1", "[::1]:8080", "Translate.example.org"):
        assert client.post("/translate", json=ASKED, headers={"Host": host}).status_code == 200
    response = client.post("/translate", json=ASKED, headers={"Host": "evil.example:80"})
    assert (response.status_code, response.headers["connection"]) == (421, "close")
    assert response.json() == {
        "error": (
            "'evil.example:80' is not a host of this server; fairseq-hrt serve --allow-host"
            " adds one"
        )
    }
    assert client.get("/", headers={"Host": "evil.example"}).status_code == 421
    entries = [
        json.loads(record.message)
        for record in caplog.records
        if record.name == "fairseq_hrt.access"
    ]
    assert [entry["status"] for entry in entries] == [200, 200, 200, 421, 421]
    figures = client.get("/metrics", headers={"Host": "localhost"}).text
    assert 'fairseq_hrt_requests_total{route="/translate",status="421"} 1.0' in figures


def test_any_host_where_none_is_told(client):
    assert (
        client.post("/translate", json=ASKED, headers={"Host": "evil.example"}).status_code == 200
    )


def test_the_log_knows_no_texts(client, caplog):
    caplog.set_level("INFO", logger="fairseq_hrt.access")
    client.post("/translate", json=ASKED)
    (record,) = [record for record in caplog.records if record.name == "fairseq_hrt.access"]
    entry = json.loads(record.message)
    assert (
        entry["route"] == "/translate" and entry["status"] == 200 and "Good" not in record.message
    )
