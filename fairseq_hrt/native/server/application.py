"""The ASGI application: its routes, each with a handler and the middleware around it."""

import contextlib
from pathlib import Path
from typing import AsyncIterator, Awaitable, Callable, Sequence, Tuple

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ..bundles.bundle import load_bundle
from .hosts import canonical_origin
from .keys import read_keys
from .middleware import add_headers, guard
from .routes import Server
from .settings import Settings
from .systems import LoadTranslator, load_translator

Handler = Callable[[Request], Awaitable[Response]]
PAGE = Path(__file__).parent / "page"
_FILES = {
    "/": ("index.html", "text/html"), "/page.css": ("page.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"), "/graph.js": ("graph.js", "text/javascript"),
}  # fmt: skip


def _file(name: str, kind: str) -> Handler:
    content = (PAGE / name).read_bytes()

    async def respond(request: Request) -> Response:
        return Response(content, media_type=kind)

    return respond


def check(settings: Settings) -> None:
    """Checks, before models are loaded, what can be checked quickly: the file of API keys, and the
    description of each bundle (``bundle.json``).

    Raises:
        ValueError: a system's folder is not a bundle, or the file of API keys cannot be read.
    """
    read_keys(settings.key_file)
    for _, folder in settings.systems:
        # Errors that only fairseq can detect are found when the system is loaded.
        load_bundle(folder, for_runtime=True)


def create_application(settings: Settings, load: LoadTranslator = load_translator) -> Starlette:
    """Makes the ASGI application. Its systems are loaded when it starts, or earlier by
    ``application.state.server.load()``.

    Args:
        settings: the server's options.
        load: makes the translator of a bundle from its folder and the settings, see
            :data:`.systems.LoadTranslator`; another function puts other translators behind the same
            interface.

    Raises:
        ValueError: the file of API keys cannot be read or has no key.
    """
    server = Server(settings, load)

    @contextlib.asynccontextmanager
    async def lifespan(application: Starlette) -> AsyncIterator[None]:
        await run_in_threadpool(server.load)
        yield
        await run_in_threadpool(server.close)

    table: Sequence[Tuple[str, str, Handler]] = (
        ("/translate", "POST", server.translate),
        ("/detect", "POST", server.detect),
        ("/suggest", "POST", server.suggest),
        ("/translate_file", "POST", server.translate_file),
        ("/languages", "GET", server.languages),
        ("/health", "GET", server.health),
        ("/frontend/settings", "GET", server.frontend_settings),
        ("/spec", "GET", server.interface),
        ("/v1/translate", "POST", server.translate_with_details),
        ("/v1/systems", "GET", server.systems),
        ("/metrics", "GET", server.figures),
        *((path, "GET", _file(*file)) for path, file in _FILES.items()),
    )
    around = guard(settings, server.metrics)
    routes = [
        Route(path, handler, methods=[method], middleware=around(path))
        for path, method, handler in table
    ]

    async def refuse(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        allowed = (error.headers or {}).get("Allow", "another method")
        messages = {404: "Not found", 405: f"Method not allowed; use {allowed}"}
        server.metrics.observe_request("other", error.status_code, 0.0)
        message = messages.get(error.status_code, "Refused")
        response = JSONResponse({"error": message}, error.status_code, error.headers)
        add_headers(response.headers)
        return response

    middleware = []
    if settings.allow_origin is not None:
        middleware = [
            Middleware(
                CORSMiddleware,
                allow_origins=[canonical_origin(settings.allow_origin) or ""],
                allow_methods=["GET", "POST"],
                allow_headers=["*"],
            )
        ]
    application = Starlette(
        routes=routes,
        middleware=middleware,
        lifespan=lifespan,
        exception_handlers={HTTPException: refuse},
    )
    # A redirection would name the host that the request claimed to be for.
    application.router.redirect_slashes = False
    application.state.server = server
    return application
