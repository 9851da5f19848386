"""What all routes have in common: limits, the answers to errors, headers, the log, the figures."""

import asyncio
import json
import logging
import time
import traceback
from typing import Awaitable, Callable

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from ..escaping import shown
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
Handler = Callable[[Request], Awaitable[Response]]


class Guard:
    """Makes handlers whose requests are limited, answered whatever happens, logged without their
    texts, and counted.

    Args:
        settings: limits; ``max_connections`` requests are answered at a time, by all handlers
            together.
        metrics: where requests are counted.
    """

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self._settings, self._metrics = settings, metrics
        self._hosts = (
            None
            if settings.allow_hosts is None
            else frozenset(map(canonical, settings.allow_hosts))
        )
        self._answering = 0

    def guarded(self, route: str, handler: Handler) -> Handler:
        """The handler with all of that.

        Args:
            route: its path, for log and figures.
            handler: may raise :class:`RequestError`; called when the body has been read.
        """

        async def respond(request: Request) -> Response:
            start = time.perf_counter()
            self._answering += 1
            try:
                response = await self._answer(handler, request)
            finally:
                self._answering -= 1
            seconds = time.perf_counter() - start
            self._metrics.observe_request(route, response.status_code, seconds)
            entry = {
                "method": request.method,
                "route": route,
                "status": response.status_code,
                "ms": round(1000 * seconds, 2),
            }
            access.info("%s", json.dumps(entry))
            return with_headers(response)

        return respond

    async def _answer(self, handler: Handler, request: Request) -> Response:
        settings = self._settings
        deadline = time.monotonic() + settings.time_limit
        try:
            self._check_host(request)
            if self._answering > settings.max_connections:
                raise RequestError(
                    503, "Too many requests at once", {"Retry-After": "1", "Connection": "close"}
                )
            try:
                await asyncio.wait_for(_read_body(request, settings.max_body), settings.time_limit)
            except asyncio.TimeoutError:
                raise RequestError(
                    408, "The request did not arrive in time", {"Connection": "close"}
                ) from None
            return await _handle(handler, request, deadline - time.monotonic())
        except RequestError as error:
            return JSONResponse({"error": error.message}, error.status, error.headers)
        except ClientDisconnect:
            # Nobody reads this; the status is the one that proxies use for it.
            return Response(status_code=499)
        except Exception as error:  # nothing of it may leave the process
            # Nor may its message stand in the log: it can hold the request's text.
            frames = "".join(traceback.format_tb(error.__traceback__))
            logger.error("a request failed: %s\n%s", type(error).__name__, frames.rstrip())
            return JSONResponse({"error": "Internal server error"}, 500)

    def _check_host(self, request: Request) -> None:
        # Only HTTP/1.0 may do without; every browser gives it.
        host = request.headers.get("host")
        if host is not None and self._hosts is not None and not is_served(host, self._hosts):
            message = (
                f"{shown(host)} is not a host of this server; fairseq-hrt serve --allow-host"
                " adds one"
            )
            raise RequestError(421, message, {"Connection": "close"})


def with_headers(response: Response) -> Response:
    """The response with the headers that every response has."""
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    return response


async def _handle(handler: Handler, request: Request, seconds: float) -> Response:
    """The handler's response, unless the time is over or the client has gone: then the handler is
    cancelled."""
    work = asyncio.ensure_future(handler(request))
    gone = asyncio.ensure_future(_disconnected(request))
    try:
        done, _ = await asyncio.wait(
            {work, gone}, timeout=max(seconds, 0.0), return_when=asyncio.FIRST_COMPLETED
        )
        if work in done:
            return work.result()
        if gone in done:
            raise ClientDisconnect
        raise RequestError(504, "The translation took too long")
    finally:
        work.cancel()
        gone.cancel()


async def _disconnected(request: Request) -> None:
    # The body has been read: nothing else can come.
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _read_body(request: Request, limit: int) -> None:
    """Reads the body; of what is above the limit nothing is kept.

    Raises:
        RequestError: 413.
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
    # Where Starlette keeps what it has read.
    request._body = bytes(body)
