"""The handlers of all routes, LibreTranslate's and our own."""

import asyncio
import functools
import logging
import math
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Dict, List, Optional, Tuple, TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from ..decoding import NumericalError
from ..io.escaping import printable, shown
from ..text.html_text import UnreadableMarkup
from ..text.texts import DecodedText
from .catalogue import Catalogue, language_name
from .detection import LanguageDetector
from .errors import RequestError, invalid
from .interface import describe_interface
from .keys import check_key, read_keys
from .metrics import Metrics
from .requests import (
    TranslationRequest,
    decoding_options,
    parse_fields,
    text_of,
    translation_request,
)
from .settings import Settings
from .systems import (
    ALIGNED,
    LoadTranslator,
    ServedSystem,
    alternatives_options,
    load_served,
    load_translator,
    require_room,
)

logger = logging.getLogger(__name__)
Result = TypeVar("Result")

# Most characters of a request that is prepared in the event loop, where others wait meanwhile; and
# the number of threads that prepare longer requests.
_SHORT = 2000
_THREADS = 4


class Server:
    """The handlers of all routes, with what they share: systems, keys, metrics and threads.

    Args:
        settings: the server's options.
        load: makes the translator of a bundle, see :data:`.systems.LoadTranslator`.
    """

    def __init__(self, settings: Settings, load: LoadTranslator = load_translator) -> None:
        self.settings, self._load_translator = settings, load
        self.keys = read_keys(settings.key_file)
        self.metrics = Metrics()
        self.catalogue = Catalogue(())
        self.detector = LanguageDetector(())
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="preparation")

    def load(self) -> None:
        """Loads all systems, unless they are loaded already.

        Raises:
            ValueError: the folder of a system is not a bundle, or the bundle cannot be loaded.
        """
        if self.catalogue.systems:
            return
        systems = self.settings.systems
        # Systems of one bundle, which differ in their options, share its model.
        load = functools.lru_cache(maxsize=None)(self._load_translator)
        self.catalogue = Catalogue(
            [
                load_served(name, folder, self.settings, self.metrics, load)
                for name, folder in systems
            ]
        )
        self.detector = LanguageDetector(self.catalogue.codes)
        self.detector.prepare()
        # All threads are started now: where memory is short, starting one can block for ever, and
        # with it all requests.
        together = threading.Barrier(_THREADS)
        try:
            list(self._threads.map(lambda _: together.wait(), range(_THREADS)))
        except RuntimeError as error:
            together.abort()
            raise OSError(f"{error}: allow the server more threads or memory") from error

    def close(self) -> None:
        """Ends the threads of all queues and those that prepare texts. To be called when all
        requests have been answered: at most a second is left to batches that are still being
        decoded, as nobody needs their results."""
        for system in self.catalogue.systems:
            system.batcher.close()
        for system in self.catalogue.systems:
            system.batcher.close(1.0 / len(self.catalogue.systems))
        self._threads.shutdown(wait=False, cancel_futures=True)

    # ------------------------------------------------------------------ LibreTranslate's interface

    async def translate(self, request: Request) -> Response:
        fields = await self._fields(request)
        wanted = self.catalogue.in_own_codes(translation_request(fields, self.settings))
        source, detected = await self._source(wanted, itself=True)
        ranked = [[text] for text in wanted.texts]
        if not self.catalogue.gives_back(source, wanted.target):
            ranked = await self._ranked(wanted, self.catalogue.choose(wanted, source))
        texts = [best for best, *_ in ranked]
        alternatives = [
            list(dict.fromkeys(text for text in others if text not in (best, "")))
            for best, *others in ranked
        ]
        answer: Dict[str, Any] = {"translatedText": texts[0] if wanted.single else texts}
        if wanted.alternatives:
            answer["alternatives"] = alternatives[0] if wanted.single else alternatives
        if detected is not None:
            answer["detectedLanguage"] = detected if wanted.single else [detected] * len(texts)
        return JSONResponse(answer)

    async def _ranked(self, wanted: TranslationRequest, system: ServedSystem) -> List[List[str]]:
        """For each text of a request its best translation by ``system`` and ``wanted.alternatives``
        others, best first; where there are fewer others, the best one is repeated in their place.
        """
        options = (
            alternatives_options(system, wanted.alternatives + 1, {}) if wanted.alternatives else {}
        )
        found = await self._decode(system, wanted, options)
        ranks = range(wanted.alternatives + 1)
        return await self._prepared(
            wanted, lambda: [[one.text(rank) for rank in ranks] for one in found]
        )

    async def suggest(self, request: Request) -> Response:
        raise RequestError(403, "Suggestions are disabled on this server.")

    async def translate_file(self, request: Request) -> Response:
        raise RequestError(403, "Files translation are disabled on this server.")

    async def detect(self, request: Request) -> Response:
        text = text_of(await self._fields(request), self.settings)
        return JSONResponse(await self._in_thread(lambda: self.detector.detect(text)))

    async def languages(self, request: Request) -> Response:
        return JSONResponse(self.catalogue.languages())

    async def health(self, request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def frontend_settings(self, request: Request) -> Response:
        first = self.catalogue.systems[0].bundle
        chosen = {"source": first.source_lang, "target": first.target_lang}
        return JSONResponse({
            "apiKeys": bool(self.keys), "keyRequired": bool(self.keys),
            "charLimit": self.settings.max_characters, "filesTranslation": False,
            "supportedFilesFormat": [], "suggestions": False, "frontendTimeout": 500,
            "language": {side: {"code": code,
                                "name": language_name(code)} for side, code in chosen.items()},
        })  # fmt: skip

    async def interface(self, request: Request) -> Response:
        return JSONResponse(describe_interface(self.settings))

    # ------------------------------------------------------------------ our own

    async def systems(self, request: Request) -> Response:
        return JSONResponse([system.describe() for system in self.catalogue.systems])

    async def translate_with_details(self, request: Request) -> Response:
        fields = await self._fields(request)
        wanted = self.catalogue.in_own_codes(
            translation_request(fields, self.settings, detailed=True)
        )
        if wanted.format != "text":
            raise invalid(
                "format html is not supported by /v1/translate: use /translate, or format text"
            )
        source, detected = await self._source(wanted, itself=False)
        system = self.catalogue.choose(wanted, source)
        options = decoding_options(fields, system.bundle.task)
        if wanted.graph and not system.graph:
            raise invalid("this system writes no graph: leave graph out or choose another system")
        if wanted.alternatives and not system.alternatives:
            raise invalid(
                "this system finds one translation of a sentence: leave alternatives out or choose"
                " another system"
            )
        if wanted.alternatives:
            options = alternatives_options(system, wanted.alternatives + 1, options)
        start = time.perf_counter()
        found = await self._decode(system, wanted, options)
        milliseconds = round(1000 * (time.perf_counter() - start), 3)
        sentences = await self._prepared(
            wanted,
            lambda: [
                [_details(system, translation) for translation in text.translations]
                for text in found
            ],
        )
        if wanted.graph:
            chosen = {
                name: value for name, value in options.items() if name not in ("beam", "nbest")
            }
            await self._add_graphs(
                system, [sentence for text in sentences for sentence in text], chosen
            )
        answer = {
            "system": system.name,
            "milliseconds": milliseconds,
            "source": source,
            "translations": [
                {"text": text.text(), "sentences": own} for text, own in zip(found, sentences)
            ],
        }
        if detected is not None:
            answer["detectedLanguage"] = detected
        return JSONResponse(answer)

    async def figures(self, request: Request) -> Response:
        content, kind = self.metrics.exposition()
        return Response(content, media_type=kind)

    # ------------------------------------------------------------------ parts of a request

    async def _in_thread(self, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def _prepared(self, wanted: TranslationRequest, work: Callable[[], Result]) -> Result:
        """Calls ``work``, which takes longer for longer requests, and returns its result. For a
        request of little plain text it is called here, else in a thread, so that others need not
        wait. Markup that cannot be read becomes a RequestError (status 400)."""
        if wanted.format == "text" and not wanted.keep and sum(map(len, wanted.texts)) <= _SHORT:
            return work()
        try:
            return await self._in_thread(work)
        except UnreadableMarkup as error:
            raise invalid(str(error)) from None

    async def _fields(self, request: Request) -> Dict[str, Any]:
        # request.url would be put together from the Host that the client sends.
        query = request.scope["query_string"].decode("latin-1")
        packed = request.headers.get("content-encoding", "identity")
        if packed.lower() != "identity":
            raise RequestError(
                415, f"Content-Encoding {shown(packed)} is not supported: send the body as it is"
            )
        fields = parse_fields(await request.body(), request.headers.get("content-type", ""), query)
        check_key(fields, request.headers.get("authorization", ""), self.keys)
        return fields

    async def _source(
        self, wanted: TranslationRequest, *, itself: bool
    ) -> Tuple[str, Optional[Dict[str, Any]]]:
        """Returns the code of a request's source language and, if it had to be detected, its entry
        in the result of :meth:`.detection.LanguageDetector.detect` (language and confidence), else
        None. ``itself``: whether the target language may be the result, too."""
        if wanted.source != "auto":
            return wanted.source, None
        text = "\n".join(wanted.texts)
        ranked = await self._in_thread(lambda: self.detector.detect(text))
        found = self.catalogue.detected(ranked, wanted.target, itself=itself)
        return found["language"], found

    async def _decode(
        self, system: ServedSystem, wanted: TranslationRequest, options: Dict[str, Any]
    ) -> List["DecodedText"]:
        language, limit = system.bundle.source_lang, self.settings.max_sentences
        subwords = (lambda text: system.translator.in_words(text).words) if system.aligned else None
        texts = await self._prepared(
            wanted,
            lambda: [
                DecodedText(text, wanted.format, language, subwords, wanted.keep)
                for text in wanted.texts
            ],
        )
        if any(text.aligned for text in texts):
            options = {**options, **ALIGNED}
        glossary = system.glossary
        if wanted.glossary is not None:
            glossary = wanted.glossary.over(glossary)
        if glossary is not None:
            options = {**options, "glossary": glossary}
        sentences = [sentence for text in texts for sentence in text.sentences]
        if len(sentences) > limit:
            raise invalid(
                f"request ({len(sentences)}) exceeds sentence limit ({limit}): send fewer sentences"
            )
        terms = await self._prepared(
            wanted, lambda: system.translator.new_terms(sentences, glossary) if glossary else []
        )
        require_room(system, len(sentences), options, self.settings, len(terms))
        try:
            if terms:
                # In batches of their own, between which others have their turn.
                await system.submit(terms, terms=True)
            found = await system.submit(sentences, **options) if sentences else []
        except NumericalError as error:
            logger.error("%s: %s", system.name, printable(str(error)))
            message = "this system's model computed NaN: the model is broken"
            raise RequestError(500, message) from None
        except ValueError as error:
            logger.warning("%s refused a request: %s", system.name, printable(str(error)))
            raise _refusal(error, system, "this system refuses these options") from None
        results = iter(found)
        for text in texts:
            text.translations = [next(results) for _ in text.sentences]
        return texts

    async def _add_graphs(
        self, system: ServedSystem, sentences: List[Dict[str, Any]], options: Dict[str, Any]
    ) -> None:
        """Adds the graph of each translated sentence to its entry in ``sentences``, made by
        :func:`_details`. Decodes the sentences once more, with the decoding options ``options``;
        requests without graphs are spared this time."""
        try:
            found = (
                await system.submit(
                    [sentence["source"] for sentence in sentences], graph=True, **options
                )
                if sentences
                else []
            )
        except ValueError as error:
            logger.warning("%s draws no graph: %s", system.name, printable(str(error)))
            refused = "this system does not draw graphs with these options"
            raise _refusal(error, system, refused) from None
        for sentence, graphs in zip(sentences, found):
            # A sentence that was cut into pieces has several graphs: the first one is shown.
            sentence["graph"] = graphs[0] if graphs else None


def _details(system: ServedSystem, translation: Any) -> Dict[str, Any]:
    """The entry of a sentence in an answer of /v1/translate. ``translation``: the sentence's
    :class:`..bundles.translation.Translation`, made by ``system``."""
    return {
        "source": translation.source,
        "text": translation.text,
        "score": _finite(translation.score),
        "tokens": translation.tokens,
        "token_steps": translation.token_steps,
        "steps": translation.steps,
        "unknown": system.translator.unknown_words(translation.source),
        "terms": [
            {name: getattr(term, name) for name in ("source", "text", "start", "end")}
            for term in getattr(translation, "terms", ())
        ],
        "alternatives": [
            {"text": other.text, "score": _finite(other.score)}
            for other in translation.alternatives
        ],
    }


def _refusal(error: ValueError, system: ServedSystem, message: str) -> RequestError:
    """The answer to a request whose options a decoder refuses: ``message`` and the decoder's own
    message, unless that may name a file."""
    said = printable(str(error))
    # The names of options may stand side by side: --max-len-a/--max-len-b.
    words = [word.strip(":;,.'") for word in said.split() if not word.startswith("--")]
    if any("/" in word or "\\" in word or word == str(system.bundle.folder) for word in words):
        said = "leave some of them out"
    return invalid(f"{message}: {said}")


def _finite(score: Optional[float]) -> Optional[float]:
    """The score, or None if it is not finite, which JSON cannot represent."""
    return score if score is not None and math.isfinite(score) else None
