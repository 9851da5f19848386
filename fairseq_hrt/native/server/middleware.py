"""The ASGI middleware around every route: limits, answers to errors, headers, the log and the
metrics."""

import asyncio
import json
import logging
import time
import traceback
from typing import Callable, List

from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..io.escaping import shown
from .errors import RequestError
from .hosts import canonical, is_served
from .metrics import Metrics
from .settings import Settings

logger = logging.getLogger(__name__)
access = logging.getLogger("fairseq_hrt.access")

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src"
        " 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
# Bodies up to so many times the limit are read to their end, and then refused.
_DISCARDED = 16


def guard(settings: Settings, metrics: Metrics) -> Callable[[str], List[Middleware]]:
    """Returns a function that makes the middleware of a route from its path.

    Args:
        settings: the limits; all routes together answer ``max_connections`` requests at a time.
        metrics: counts the requests.
    """
    places = asyncio.Semaphore(settings.max_connections)
    return lambda route: [Middleware(Guarded, route, settings, metrics, places)]


class Guarded:
    """Calls a route for the requests within the limits, and turns refusals and errors into answers.
    Adds :data:`HEADERS` to each answer, logs its status and duration but no text, and counts it.

    Refused are, in this order: a ``Host`` header that is not a name of this server (status 421), a
    request while all places are taken (503), and a body that takes too long (408) or is too large
    (413). The route is cancelled when the time for body and answer is over (504) or the client has
    gone. An answer is sent when it is complete, so a client that reads slowly occupies neither a
    place nor the time of a request.

    Args:
        app: the route.
        route: the route's path, for log and metrics.
        settings: the limits.
        metrics: counts the answers.
        places: the free places, shared by all routes.
    """

    def __init__(
        self,
        app: ASGIApp,
        route: str,
        settings: Settings,
        metrics: Metrics,
        places: asyncio.Semaphore,
    ) -> None:
        self._app, self._route, self._metrics, self._places = app, route, metrics, places
        self._seconds, self._max_body = settings.time_limit, settings.max_body
        hosts = settings.allow_hosts
        self._hosts = None if hosts is None else frozenset(map(canonical, hosts))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        start = time.perf_counter()
        answer: List[Message] = []

        async def keep(message: Message) -> None:
            answer.append(message)

        try:
            self._require_host(scope)
            if self._places.locked():
                raise RequestError(
                    503, "Too many requests at once", {"Retry-After": "1", "Connection": "close"}
                )
            async with self._places:
                await self._in_time(scope, receive, keep)
        except Exception as error:  # nothing of it may leave the process
            answer.clear()
            await _answer_to(error)(scope, receive, keep)
        seconds, status = time.perf_counter() - start, answer[0]["status"]
        self._metrics.observe_request(self._route, status, seconds)
        entry = {
            "method": scope["method"],
            "route": self._route,
            "status": status,
            "ms": round(1000 * seconds, 2),
        }
        access.info("%s", json.dumps(entry))
        add_headers(MutableHeaders(scope=answer[0]))
        for message in answer:
            await send(message)

    def _require_host(self, scope: Scope) -> None:
        # Only requests of HTTP/1.0 may lack the header; every browser sends it.
        host = Headers(scope=scope).get("host")
        if host is not None and self._hosts is not None and not is_served(host, self._hosts):
            message = (
                f"{shown(host)} is not a host of this server; fairseq-hrt serve --allow-host"
                " adds one"
            )
            raise RequestError(421, message, {"Connection": "close"})

    async def _in_time(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Reads the body and calls the route; cancels it when nobody waits for it any more."""
        deadline = time.monotonic() + self._seconds
        reading = _read_body(Request(scope, receive), self._max_body)
        try:
            body = await asyncio.wait_for(reading, self._seconds)
        except asyncio.TimeoutError:
            raise RequestError(
                408, "The request did not arrive in time", {"Connection": "close"}
            ) from None

        async def again() -> Message:
            return {"type": "http.request", "body": body, "more_body": False}

        work = asyncio.ensure_future(self._app(scope, again, send))
        gone = asyncio.ensure_future(_disconnected(receive))
        try:
            done, _ = await asyncio.wait(
                {work, gone},
                timeout=max(deadline - time.monotonic(), 0.0),
                return_when=asyncio.FIRST_COMPLETED,
            )
            if work in done:
                return work.result()
            if gone in done:
                raise ClientDisconnect
            raise RequestError(504, "The translation took too long: send less text at a time")
        finally:
            work.cancel()
            gone.cancel()


def add_headers(headers: MutableHeaders) -> None:
    """Adds the headers that every response has (HEADERS), except those that are there already."""
    for name, value in HEADERS.items():
        headers.setdefault(name, value)


def _answer_to(error: Exception) -> Response:
    if isinstance(error, RequestError):
        return JSONResponse({"error": error.message}, error.status, error.headers)
    if isinstance(error, ClientDisconnect):
        # Nobody reads this; the status is the one that proxies use for it.
        return Response(status_code=499)
    # Its message may not stand in the log either: it can hold the request's text.
    frames = "".join(traceback.format_tb(error.__traceback__))
    logger.error("a request failed: %s\n%s", type(error).__name__, frames.rstrip())
    return JSONResponse({"error": "Internal server error"}, 500)


async def _disconnected(receive: Receive) -> None:
    # The body has been read: nothing else can come.
    while (await receive())["type"] != "http.disconnect":
        pass


async def _read_body(request: Request, limit: int) -> bytes:
    """Returns the body of a request. If it has more than ``limit`` bytes, up to _DISCARDED times as
    many are read, but not kept, before the request is refused.

    Raises:
        RequestError: status 413, the body is too large.
    """
    body, size = bytearray(), 0
    async for chunk in request.stream():
        size += len(chunk)
        if size <= limit:
            body += chunk
            continue
        body.clear()
        # A client that is still sending when the connection is closed does not see the answer.
        if size > _DISCARDED * limit:
            break
    if size > limit:
        raise RequestError(
            413, f"Request body exceeds the limit of {limit} bytes", {"Connection": "close"}
        )
    return bytes(body)
