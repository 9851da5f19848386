"""Reads and checks the contents of requests, so that other modules see checked values only."""

import itertools
import json
import logging
import re
from dataclasses import dataclass
from typing import Any, Dict, Iterable, List, Mapping, Optional, Tuple
from urllib.parse import parse_qsl

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import create_form_parser

from ..families import FAMILIES
from ..options.conditions import did_you_mean
from ..options.values import KINDS, SCHEMA
from ..text.glossary import Glossary
from .errors import RequestError, invalid
from .settings import Settings

FORMATS = ("text", "html")
# The fields of LibreTranslate's interface (its own page sends a secret), and ours.
COMPATIBLE = ("q", "source", "target", "format", "alternatives", "api_key", "secret")
OWN = ("keep", "system", "glossary")
# Of /v1/translate alone.
DETAILED = ("graph", "options")
_FORM = "application/x-www-form-urlencoded"
_PARTS = "multipart/form-data"
_MOST_FIELDS = 1000
# This package logs what clients send.
logging.getLogger("python_multipart").setLevel(logging.CRITICAL)
# The value of the field keep with which placeholders in plain text stay untranslated.
KEPT = "placeholders"


_TASKS = {family.name: family.task for family in FAMILIES}


def _choices() -> Dict[str, Dict[str, Any]]:
    """The decoding options that a request may choose, with JSON schemas of their values: {name:
    schema}. No option that names a file or takes much time is among them."""
    found: Dict[str, Dict[str, Any]] = {}
    for name, option in SCHEMA.items():
        kind, allowed, task = KINDS[name][0], option.request, _TASKS.get(option.origin)
        if allowed is None:
            continue
        if kind is str:
            found[name] = {"type": "string", "enum": list(allowed)}
        elif kind is bool:
            found[name] = {"type": "boolean"}
        else:
            of_kind = "integer" if kind is int else "number"
            found[name] = {"type": of_kind, "minimum": allowed[0], "maximum": allowed[1]}
        if task is not None:
            found[name]["description"] = f"of systems with the task {task}"
    return {**found, "replace_unk": {"type": "boolean"}}


# The decoding options that a request may choose, by the names of fairseq-generate: the values that
# are accepted, in JSON Schema.
DECODING: Dict[str, Dict[str, Any]] = _choices()


def accepts(choice: Mapping[str, Any], value: Any) -> bool:
    """Whether a value of a request fits the JSON schema ``choice``, a value of :data:`DECODING`."""
    if choice["type"] == "string":
        return isinstance(value, str) and value in choice["enum"]
    if choice["type"] == "boolean" or isinstance(value, bool):
        return choice["type"] == "boolean" and isinstance(value, bool)
    number = isinstance(value, int) or (choice["type"] == "number" and isinstance(value, float))
    # No comparison with nan is true.
    return number and choice["minimum"] <= value <= choice["maximum"]


def in_words(choice: Mapping[str, Any]) -> str:
    """States in words, for an error message, which values fit the JSON schema ``choice``, a value
    of :data:`DECODING`: ``one of a, b``, ``true or false`` or ``an integer from 1 to 16``."""
    if choice["type"] == "string":
        return "one of " + ", ".join(choice["enum"])
    if choice["type"] == "boolean":
        return "true or false"
    kind = "an integer" if choice["type"] == "integer" else "a number"
    return f"{kind} from {choice['minimum']} to {choice['maximum']}"


@dataclass(frozen=True)
class TranslationRequest:
    """A checked request for translations.

    Attributes:
        texts: the texts to translate, at least one.
        single: whether one text was given instead of a list.
        source: code of the source language, or ``auto``.
        target: code of the target language.
        format: ``text`` or ``html``.
        alternatives: number of further translations of each text.
        system: name of a system, or None for the first that fits the languages.
        graph: whether the graphs of the translations are asked for.
        keep: whether placeholders of plain text (addresses, tags, ``{name}``) stay untranslated.
        glossary: the translations to use for terms, or None.
    """

    texts: Tuple[str, ...]
    single: bool
    source: str
    target: str
    format: str = "text"
    alternatives: int = 0
    system: Optional[str] = None
    graph: bool = False
    keep: bool = False
    glossary: Optional[Glossary] = None


def parse_fields(body: bytes, content_type: str, query: str) -> Dict[str, Any]:
    """Reads the fields of a request, {name: value}: those of its body, JSON or a form, and those of
    its query. If both have a field, the body's counts.

    Args:
        body, content_type: the request's body and its header ``Content-Type``.
        query: the part of the address behind ``?``.

    Raises:
        RequestError: status 400 if the body does not match its content type, 415 if that type
            is unknown.
    """
    fields: Dict[str, Any] = _pairs(query)
    kind = content_type.split(";")[0].strip().lower()
    if kind == _PARTS:
        # Before decoding: such a body may have files, which need not be UTF-8.
        return {**fields, **_together(_parts(body, content_type))}
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise invalid("the body is not UTF-8") from None
    if re.fullmatch(r"application/(.+\+)?json", kind) or (
        not kind and text.lstrip().startswith("{")
    ):
        try:
            document = json.loads(text, parse_constant=_no_constant)
        except (ValueError, RecursionError):
            raise invalid("the body is not JSON") from None
        if not isinstance(document, dict):
            raise invalid("the body must be a JSON object")
        fields.update(document)
    elif kind == _FORM:
        # curl calls all that it sends a form, unless told otherwise.
        if text.lstrip().startswith("{"):
            raise RequestError(
                415, f"JSON was sent as {_FORM}: add the header Content-Type: application/json"
            )
        fields.update(_pairs(text))
    elif text.strip():
        wrong = f"Unsupported content type {_shown(kind)}" if kind else "No content type"
        raise RequestError(415, f"{wrong}: send application/json, {_PARTS} or {_FORM}")
    return fields


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _pairs(text: str) -> Dict[str, Any]:
    try:
        return _together(
            parse_qsl(text, keep_blank_values=True, max_num_fields=_MOST_FIELDS, errors="strict")
        )
    except (ValueError, UnicodeDecodeError):
        raise _UNREADABLE from None


_UNREADABLE = invalid(
    f"the fields cannot be read: there are more than {_MOST_FIELDS}, or they are not UTF-8"
)


def _parts(body: bytes, content_type: str) -> List[Tuple[str, str]]:
    """The fields of a multipart form, as pairs (name, value); files in it are ignored.

    Raises:
        RequestError: status 400, the form cannot be read.
    """
    pairs: List[Tuple[str, str]] = []
    parts = itertools.count(1)
    complete: List[bool] = []

    def count(part: Any) -> None:
        if next(parts) > _MOST_FIELDS:
            raise _UNREADABLE

    def keep(field: Any) -> None:
        count(field)
        name, value = ((part or b"").decode() for part in (field.field_name, field.value))
        pairs.append((name, value))

    headers = {"Content-Type": content_type.encode("latin-1")}
    # Nothing is written to a disk.
    limits = {"MAX_MEMORY_FILE_SIZE": len(body)}
    try:
        parser = create_form_parser(headers, keep, count, config=limits)
        parser.on_end = lambda: complete.append(True)
        parser.write(body)
        parser.finalize()
    except UnicodeDecodeError:
        raise _UNREADABLE from None
    except FormParserError:
        complete.clear()
    if not complete:
        raise invalid(f"the body is not {_PARTS}, or its end is missing")
    return pairs


def _together(pairs: Iterable[Tuple[str, str]]) -> Dict[str, Any]:
    """Collects the fields of a form: {name: value}, or a list of values for a field that is given
    several times, in order. Line ends ``\\r\\n``, as browsers send them, become ``\\n``."""
    fields: Dict[str, Any] = {}
    for name, value in pairs:
        value = value.replace("\r\n", "\n")
        if name in fields:
            fields[name] = (
                [*fields[name], value] if isinstance(fields[name], list) else [fields[name], value]
            )
        else:
            fields[name] = value
    return fields


def translation_request(
    fields: Mapping[str, Any], settings: Settings, *, detailed: bool = False
) -> TranslationRequest:
    """Checks the fields of a request for translations and converts them.

    Args:
        fields: the result of :func:`parse_fields`.
        settings: the limits of a request.
        detailed: True for our own interface (/v1/translate), False for LibreTranslate's.

    Raises:
        RequestError: status 400; the message names the field that is refused.
    """
    _require_known(fields, detailed)
    query = _query(fields)
    texts = _texts(query, settings)
    source, target = _word(fields, "source"), _word(fields, "target")
    form = fields.get("format") or "text"
    if form not in FORMATS:
        raise RequestError(
            400, f"{_shown(form)} format is not supported: use {' or '.join(FORMATS)}"
        )
    system = fields.get("system")
    if system is not None and not isinstance(system, str):
        raise invalid("system must be a string")
    graph = fields.get("graph", False)
    if not isinstance(graph, bool):
        raise invalid("graph must be true or false")
    keep = fields.get("keep", "")
    if keep not in ("", KEPT):
        raise invalid(f"keep {_shown(keep)} is not supported; it may be {KEPT}")
    return TranslationRequest(
        texts=tuple(texts),
        single=isinstance(query, str),
        source=source,
        target=target,
        format=form,
        alternatives=_alternatives(fields, settings, detailed),
        system=system,
        graph=graph,
        keep=keep == KEPT,
        glossary=_glossary(fields.get("glossary"), settings),
    )


def _glossary(given: Any, settings: Settings) -> Optional[Glossary]:
    """The glossary of a request, given as an object of terms and translations or, in a form, as the
    lines of a glossary file; None if there is none."""
    if given is None or given == "" or given == {}:
        return None
    if not isinstance(given, (str, dict)):
        raise invalid("glossary must be an object of terms and their translations")
    count = len(given) if isinstance(given, dict) else given.count("\n") + 1
    if count > settings.max_terms:
        raise invalid(
            f"glossary ({count}) exceeds term limit ({settings.max_terms}): send fewer terms"
        )
    try:
        return Glossary(given) if isinstance(given, dict) else Glossary.parse(given)
    except ValueError as error:
        # Messages of parse() begin with "glossary" themselves.
        prefix = "glossary: " if isinstance(given, dict) else ""
        raise invalid(f"{prefix}{error}") from None


def decoding_options(fields: Mapping[str, Any], task: str) -> Dict[str, Any]:
    """The decoding options that a request to /v1/translate chooses in its field ``options``, {name:
    value}. LibreTranslate's interface has no such field.

    Args:
        fields: the fields of the request; all but ``options`` are ignored.
        task: fairseq's task of the system that is to translate.

    Raises:
        RequestError: status 400 for an option that :data:`DECODING` lacks, or that belongs to
            another task, or for a value out of the option's range.
    """
    given = fields.get("options") or {}
    if not isinstance(given, dict):
        raise invalid("options must be an object")
    known = [
        name
        for name in DECODING
        if name not in SCHEMA or _TASKS.get(SCHEMA[name].origin, task) == task
    ]
    for name, value in sorted(given.items()):
        if name not in known:
            raise invalid(
                f"option {_shown(name)} cannot be chosen here; choose among: {', '.join(known)}"
            )
        if not accepts(DECODING[name], value):
            raise invalid(f"option {name} must be {in_words(DECODING[name])}")
    return {name: given[name] for name in sorted(given)}


def _require_known(fields: Mapping[str, Any], detailed: bool) -> None:
    """Raises RequestError for a field that has no effect. If ``detailed`` (/v1/translate), any
    unknown field is refused; else only a field of /v1/translate, as LibreTranslate ignores unknown
    fields."""
    known = (*COMPATIBLE, *OWN, *DETAILED)
    for name in fields:
        if not detailed and name in DETAILED:
            raise invalid(
                f"{name} is a field of /v1/translate: send the request there, or leave it out"
            )
        if not detailed or name in known:
            continue
        raise invalid(
            f"unknown field {_shown(name)}"
            + (did_you_mean(name[:40], known) or f"; there are: {', '.join(known)}")
        )


def text_of(fields: Mapping[str, Any], settings: Settings) -> str:
    """The text whose language a request asks for; several texts are joined by line breaks.

    Raises:
        RequestError: status 400, the texts are missing, too long or too many.
    """
    return "\n".join(_texts(_query(fields), settings))


def _query(fields: Mapping[str, Any]) -> Any:
    query = fields.get("q")
    if query is None or query == "" or query == []:
        raise invalid("missing q parameter")
    return query


def _texts(query: Any, settings: Settings) -> List[str]:
    texts = [query] if isinstance(query, str) else query
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise invalid("q must be a string or a list of strings")
    if len(texts) > settings.max_texts:
        raise invalid(
            f"request ({len(texts)}) exceeds text limit ({settings.max_texts}): send fewer texts"
        )
    characters = sum(map(len, texts))
    if characters > settings.max_characters:
        raise invalid(
            f"request ({characters}) exceeds text limit ({settings.max_characters}): send fewer"
            " characters"
        )
    # Half of a surrogate pair can stand in JSON but in no response.
    return [re.sub("[\ud800-\udfff]", "\ufffd", text) for text in texts]


def _word(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name)
    if value is None or value == "":
        raise invalid(f"missing {name} parameter")
    if not isinstance(value, str):
        raise invalid(f"{name} must be a string")
    return value.strip().lower()


def _alternatives(fields: Mapping[str, Any], settings: Settings, detailed: bool) -> int:
    value, most = fields.get("alternatives") or 0, settings.max_alternatives
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,6}", value):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or (detailed and value < 0):
        raise invalid("alternatives parameter is not a number")
    if value > most:
        raise invalid(f"alternatives parameter must be <= {most}")
    # LibreTranslate's clients may send -1.
    return max(value, 0)


def _shown(value: Any) -> str:
    """A value of a request in the form in which a message may repeat it: at most 40 characters, on
    one line."""
    text = value if isinstance(value, str) else json.dumps(value)
    # Neither separators of lines nor what turns round the direction of the words behind it.
    return re.sub(r"[^ -~\u00a1-\u2027\u202f-\u2065\u206a-\ud7ff\ue000-\uffff]", "?", text)[:40]


def unsupported_language(code: str) -> RequestError:
    """Makes the error for the code of a language that no system has (status 400)."""
    return RequestError(400, f"{_shown(code)} is not supported")
