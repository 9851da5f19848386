"""The description of the server's interface in OpenAPI 3.1, served under /spec."""

from typing import Any, Dict, List

from .. import __version__
from ..text.glossary import LONGEST
from .requests import DECODING, FORMATS, KEPT
from .settings import Settings


def describe_interface(settings: Settings) -> Dict[str, Any]:
    """Makes the OpenAPI document, as the content of a JSON object; the limits in it are those of
    ``settings``."""
    text = {"type": "string", "maxLength": settings.max_characters}
    language = {"type": "string", "description": "a code of /languages"}
    translate = _translation_request(settings, text, language)
    detailed = _object(
        {
            **translate["properties"],
            "graph": {
                "type": "boolean",
                "default": False,
                "description": "the graph of each sentence, of systems that write graphs",
            },
            "options": {"type": "object", "properties": DECODING, "additionalProperties": False},
        },
        ["q", "source", "target"],
    )
    detected = _object(
        {"confidence": {"type": "number"}, "language": language}, ["confidence", "language"]
    )
    one_or_many = {"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
    translated = _object(
        {
            "translatedText": one_or_many,
            "alternatives": {"type": "array"},
            "detectedLanguage": {"oneOf": [detected, {"type": "array", "items": detected}]},
        },
        ["translatedText"],
    )
    known = {
        "code": language,
        "name": {"type": "string"},
        "targets": {"type": "array", "items": language},
    }
    languages = {"type": "array", "items": _object(known, ["code", "name", "targets"])}
    asked = _object({"q": text, "api_key": {"type": "string"}}, ["q"])
    found = {
        "system": {"type": "string"},
        "milliseconds": {"type": "number"},
        "source": language,
        "translations": {"type": "array"},
    }
    details = _object(found, ["system", "milliseconds", "source", "translations"])
    return {
        "openapi": "3.1.0",
        "info": {"title": "fairseq_hrt", "version": __version__, "license": {"name": "MIT"}},
        "paths": {
            "/translate": {
                "post": _operation(
                    "Translate text (the interface of LibreTranslate)", translated, translate
                )
            },
            "/detect": {
                "post": _operation(
                    "Detect the language of a text", {"type": "array", "items": detected}, asked
                )
            },
            "/languages": {"get": _operation("Languages", languages)},
            "/health": {
                "get": _operation(
                    "Whether the server answers", _object({"status": {"const": "ok"}}, ["status"])
                )
            },
            "/frontend/settings": {
                "get": _operation("Settings for front ends of LibreTranslate", {"type": "object"})
            },
            "/v1/translate": {
                "post": _operation(
                    "Translate text, with scores, tokens and steps", details, detailed
                )
            },
            "/v1/systems": {
                "get": _operation("Systems", {"type": "array", "items": {"type": "object"}})
            },
        },
    }


def _translation_request(
    settings: Settings, text: Dict[str, Any], language: Dict[str, Any]
) -> Dict[str, Any]:
    """The JSON schema of a request to /translate: LibreTranslate's fields, and ours. ``text`` and
    ``language`` are the schemas of a text to translate and of a language code."""
    texts = {
        "oneOf": [
            text,
            {"type": "array", "items": text, "minItems": 1, "maxItems": settings.max_texts},
        ]
    }
    return _object(
        {
            "q": {**texts, "description": "what is translated"},
            "source": {**language, "description": "a code of /languages, or auto"},
            "target": language,
            "format": {"type": "string", "enum": list(FORMATS), "default": "text"},
            "keep": {
                "type": "string",
                "enum": [KEPT],
                "description": "parts of plain text that are not translated; in html always",
            },
            "glossary": {
                "type": "object",
                "additionalProperties": {"type": "string", "maxLength": LONGEST},
                "maxProperties": settings.max_terms,
                "description": "terms and their translations; a form has lines of both, with a tab",
            },
            "alternatives": {
                "type": "integer",
                "minimum": 0,
                "maximum": settings.max_alternatives,
                "default": 0,
                "description": "number of further translations, besides the best one",
            },
            "system": {
                "type": "string",
                "description": "name of a system, see /v1/systems; default: the first that fits",
            },
            "api_key": {"type": "string"},
        },
        ["q", "source", "target"],
    )


def _object(properties: Dict[str, Any], required: List[str]) -> Dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required}


def _operation(summary: str, response: Dict[str, Any], body: Dict[str, Any] = {}) -> Dict[str, Any]:  # noqa: B006
    """Describes a route as an operation of OpenAPI, with the errors that it may answer with.
    ``response`` and ``body`` are the JSON schemas of its response and of its request's body; empty
    ``body``: the request has none."""
    error = {
        "content": {
            "application/json": {"schema": _object({"error": {"type": "string"}}, ["error"])}
        }
    }
    statuses = {
        "408": "too slow",
        "421": "not a host of this server",
        "503": "too many requests, or shutting down",
    }
    if body:
        statuses.update({
            "400": "invalid request, or no key", "403": "a wrong key", "413": "body too large",
            "415": "unknown content type", "429": "queue full", "504": "translation too slow",
        })  # fmt: skip
    found: Dict[str, Any] = {
        "summary": summary,
        "responses": {
            "200": {
                "description": "as asked",
                "content": {"application/json": {"schema": response}},
            },
            **{status: {"description": text, **error} for status, text in statuses.items()},
        },
    }
    if body:
        kinds = (
            "application/json",
            "application/x-www-form-urlencoded",
            "multipart/form-data",
        )
        found["requestBody"] = {
            "required": True,
            "content": {kind: {"schema": body} for kind in kinds},
        }
    return found
