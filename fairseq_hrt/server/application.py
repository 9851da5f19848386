"""The ASGI application: routes, limits and what every response has in common."""

import asyncio
import contextlib
import json
import logging
import os
import time
from pathlib import Path
from typing import Any, AsyncIterator, Awaitable, Callable, Dict, List, Optional, Sequence, Tuple

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ..hub.bundle import load_bundle
from .detection import LanguageDetector
from .errors import RequestError, invalid
from .interface import describe_interface
from .markup import MarkedUpText
from .metrics import Metrics
from .requests import TranslationRequest, check_key, decoding_options, parse_fields, text_of, translation_request
from .segments import Segments, split
from .settings import Settings
from .systems import Catalogue, ServedSystem, alternatives_options, language_name, load_system

logger = logging.getLogger(__name__)
access = logging.getLogger("fairseq_hrt.access")

SETTINGS_VARIABLE = "FAIRSEQ_HRT_SERVER_SETTINGS"
PAGE = Path(__file__).parent / "page"
_FILES = {"/": ("index.html", "text/html"), "/page.js": ("page.js", "text/javascript"), "/page.css": ("page.css", "text/css")}
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
Handler = Callable[[Request], Awaitable[Response]]


class Server:
    """What the routes share.

    Args:
        settings: see there.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.keys = read_keys(settings.key_file)
        self.metrics = Metrics()
        self.catalogue = Catalogue(())
        self.detector: Optional[LanguageDetector] = None

    def load(self) -> None:
        """Loads all systems.

        Raises:
            ValueError: one of them is no bundle or cannot be loaded.
        """
        self.catalogue = Catalogue([load_system(name, folder, self.settings, self.metrics) for name, folder in self.settings.systems])
        self.detector = LanguageDetector(self.catalogue.sources)

    def close(self) -> None:
        """Finishes what is being decoded."""
        for system in self.catalogue.systems:
            system.batcher.close(self.settings.time_limit)

    # ------------------------------------------------------------------ LibreTranslate's interface

    async def translate(self, request: Request) -> Response:
        fields = await self._fields(request)
        wanted = translation_request(fields, self.settings)
        source, detected = await self._source(wanted)
        system = self.catalogue.choose(wanted, source)
        options = alternatives_options(system, wanted.alternatives + 1) if wanted.alternatives else {}
        texts, alternatives = [], []
        for found in await self._decode(system, wanted, options):
            texts.append(found.text())
            alternatives.append([text for text in map(found.text, range(1, wanted.alternatives + 1)) if text != found.text()])
        answer: Dict[str, Any] = {"translatedText": texts[0] if wanted.single else texts}
        if wanted.alternatives:
            answer["alternatives"] = alternatives[0] if wanted.single else alternatives
        if detected is not None:
            answer["detectedLanguage"] = detected if wanted.single else [detected] * len(texts)
        return JSONResponse(answer)

    async def detect(self, request: Request) -> Response:
        text = text_of(await self._fields(request), self.settings)
        return JSONResponse(await run_in_threadpool(self.detector.detect, text))

    async def languages(self, request: Request) -> Response:
        return JSONResponse(self.catalogue.languages())

    async def health(self, request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def frontend_settings(self, request: Request) -> Response:
        first = self.catalogue.systems[0].bundle
        chosen = {"source": first.source_lang, "target": first.target_lang}
        return JSONResponse({
            "apiKeys": bool(self.keys), "keyRequired": bool(self.keys), "charLimit": self.settings.max_characters,
            "filesTranslation": False, "supportedFilesFormat": [], "suggestions": False,
            "frontendTimeout": 500, "language": {side: {"code": code, "name": language_name(code)} for side, code in chosen.items()},
        })  # fmt: skip

    async def interface(self, request: Request) -> Response:
        return JSONResponse(describe_interface(self.settings))

    # ------------------------------------------------------------------ our own

    async def systems(self, request: Request) -> Response:
        return JSONResponse([system.describe() for system in self.catalogue.systems])

    async def translate_with_details(self, request: Request) -> Response:
        fields = await self._fields(request)
        wanted = translation_request(fields, self.settings)
        if wanted.format != "text":
            raise invalid("format html has no details; use /translate")
        source, detected = await self._source(wanted)
        system = self.catalogue.choose(wanted, source)
        options: Dict[str, Any] = dict(decoding_options(fields))
        if wanted.alternatives:
            options = {**options, **alternatives_options(system, max(wanted.alternatives + 1, options.get("beam", 1)))}
        start = time.perf_counter()
        found = await self._decode(system, wanted, options)
        answer = {
            "system": system.name,
            "milliseconds": round(1000 * (time.perf_counter() - start), 3),
            "source": source,
            "translations": [{"text": one.text(), "sentences": [_details(t) for t in one.translations]} for one in found],
        }
        if detected is not None:
            answer["detectedLanguage"] = detected
        return JSONResponse(answer)

    async def figures(self, request: Request) -> Response:
        content, kind = self.metrics.exposition()
        return Response(content, media_type=kind)

    # ------------------------------------------------------------------ parts of a request

    async def _fields(self, request: Request) -> Dict[str, Any]:
        fields = parse_fields(await request.body(), request.headers.get("content-type", ""), request.url.query)
        check_key(fields, request.headers.get("authorization", ""), self.keys)
        return fields

    async def _source(self, wanted: TranslationRequest) -> Tuple[str, Optional[Dict[str, Any]]]:
        """The language of the texts, and how it was found if that was asked for."""
        if wanted.source != "auto":
            return wanted.source, None
        found = (await run_in_threadpool(self.detector.detect, "\n".join(wanted.texts)))[0]
        return found["language"], found

    async def _decode(self, system: ServedSystem, wanted: TranslationRequest, options: Dict[str, Any]) -> List["DecodedText"]:
        texts = [DecodedText(text, wanted.format, system.bundle.source_lang) for text in wanted.texts]
        sentences = [sentence for text in texts for sentence in text.sentences]
        try:
            found = await system.batcher.submit(sentences, **options) if sentences else []
        except ValueError as error:
            # A decoder's words may name files.
            logger.warning("%s refused a request: %s", system.name, error)
            raise invalid("this system does not take these options") from None
        place = 0
        for text in texts:
            text.translations = list(found[place : place + len(text.sentences)])
            place += len(text.sentences)
        return texts


class DecodedText:
    """One text on its way: cut into sentences, then put together from their translations."""

    def __init__(self, text: str, form: str, language: str) -> None:
        self._text = text
        self._html = MarkedUpText(text) if form == "html" else None
        pieces = [text] if self._html is None else self._html.texts
        self._segments: List[Segments] = [split(piece, language) for piece in pieces]
        self.sentences = [sentence for segments in self._segments for sentence in segments.sentences]
        self.translations: List[Any] = []

    def text(self, rank: int = 0) -> str:
        """The translation; ``rank`` > 0 takes that alternative of each sentence, its best where it has not as many."""
        chosen = [_ranked(translation, rank) for translation in self.translations]
        joined, place = [], 0
        for segments in self._segments:
            joined.append(segments.join(chosen[place : place + len(segments.sentences)]))
            place += len(segments.sentences)
        if self._html is None:
            return joined[0]
        # Joining changes the tree, so each time it is read anew.
        return MarkedUpText(self._text).join(joined)


def _ranked(translation: Any, rank: int) -> str:
    return translation.alternatives[rank - 1].text if 0 < rank <= len(translation.alternatives) else translation.text


def _details(translation: Any) -> Dict[str, Any]:
    """A sentence as /v1/translate tells of it."""
    return {
        "source": translation.source,
        "text": translation.text,
        "score": translation.score,
        "tokens": translation.tokens,
        "token_steps": translation.token_steps,
        "steps": translation.steps,
        "alternatives": [{"text": other.text, "score": other.score} for other in translation.alternatives],
    }


def read_keys(path: Optional[Path]) -> List[str]:
    """The keys of a file, one a line; empty lines and lines with ``#`` are left out.

    Raises:
        ValueError: the file cannot be read or holds no key.
    """
    if path is None:
        return []
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"--key-file {path}: {error}") from error
    keys = [line for line in lines if line and not line.startswith("#")]
    if not keys:
        raise ValueError(f"--key-file {path} holds no key: write one a line")
    return keys


def _guarded(route: str, handler: Handler, server: Server) -> Handler:
    """A handler with the limits, the answers to errors, the headers, the log and the figures that all have in common."""

    async def respond(request: Request) -> Response:
        start = time.perf_counter()
        response = await _answer(handler, request, server.settings)
        for name, value in _HEADERS.items():
            response.headers.setdefault(name, value)
        seconds = time.perf_counter() - start
        server.metrics.observe_request(route, response.status_code, seconds)
        entry = {"method": request.method, "route": route, "status": response.status_code, "ms": round(1000 * seconds, 2)}
        access.info("%s", json.dumps(entry))
        return response

    return respond


async def _answer(handler: Handler, request: Request, settings: Settings) -> Response:
    stage = {"message": "The request did not arrive in time", "status": 408}

    async def work() -> Response:
        await _read_body(request, settings.max_body)
        stage.update(message="The translation took too long", status=504)
        return await handler(request)

    try:
        return await asyncio.wait_for(work(), settings.time_limit)
    except RequestError as error:
        return JSONResponse({"error": error.message}, error.status, error.headers)
    except asyncio.TimeoutError:
        return JSONResponse({"error": stage["message"]}, stage["status"])
    except ClientDisconnect:
        # Nobody reads this; the status is the one that proxies use for it.
        return Response(status_code=499)
    except Exception:  # noqa: BLE001 - nothing of it may leave the process
        logger.exception("a request failed")
        return JSONResponse({"error": "Internal server error"}, 500)


async def _read_body(request: Request, limit: int) -> None:
    """Reads the body, no further than the limit."""
    chunks, size = [], 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > limit:
            raise RequestError(413, f"Request body exceeds the limit of {limit} bytes", {"Connection": "close"})
        chunks.append(chunk)
    # Where Starlette keeps what it has read.
    request._body = b"".join(chunks)  # noqa: SLF001


def _file(name: str, kind: str) -> Handler:
    content = (PAGE / name).read_bytes()

    async def respond(request: Request) -> Response:
        return Response(content, media_type=kind)

    return respond


def check(settings: Settings) -> None:
    """Reads what can be wrong before anything is loaded.

    Raises:
        ValueError: a system is no bundle, or the keys cannot be read.
    """
    read_keys(settings.key_file)
    for _, folder in settings.systems:
        load_bundle(folder)


def create_application(settings: Settings) -> Starlette:
    """The application; its systems are loaded when it starts.

    Raises:
        ValueError: the keys cannot be read.
    """
    server = Server(settings)

    @contextlib.asynccontextmanager
    async def lifespan(application: Starlette) -> AsyncIterator[None]:
        await run_in_threadpool(server.load)
        yield
        await run_in_threadpool(server.close)

    table: Sequence[Tuple[str, Sequence[str], Handler]] = (
        ("/translate", ["POST"], server.translate),
        ("/detect", ["POST"], server.detect),
        ("/languages", ["GET"], server.languages),
        ("/health", ["GET"], server.health),
        ("/frontend/settings", ["GET"], server.frontend_settings),
        ("/spec", ["GET"], server.interface),
        ("/v1/translate", ["POST"], server.translate_with_details),
        ("/v1/systems", ["GET"], server.systems),
        ("/metrics", ["GET"], server.figures),
        *((path, ["GET"], _file(*file)) for path, file in _FILES.items()),
    )
    routes = [Route(path, _guarded(path, handler, server), methods=list(methods)) for path, methods, handler in table]

    async def refuse(request: Request, error: HTTPException) -> Response:
        messages = {404: "Not found", 405: "Method not allowed"}
        server.metrics.observe_request("other", error.status_code, 0.0)
        return JSONResponse({"error": messages.get(error.status_code, "Refused")}, error.status_code, error.headers)

    middleware = []
    if settings.allow_origin is not None:
        middleware = [Middleware(CORSMiddleware, allow_origins=[settings.allow_origin], allow_methods=["GET", "POST"], allow_headers=["*"])]
    application = Starlette(routes=routes, middleware=middleware, lifespan=lifespan, exception_handlers={HTTPException: refuse})
    application.state.server = server
    return application


def application_from_environment() -> Starlette:
    """The application of a worker process; the settings come from the process that started it."""
    return create_application(Settings.from_json(os.environ[SETTINGS_VARIABLE]))
