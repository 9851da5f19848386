"""The contents of a request, checked; nothing behind this module sees an unchecked value."""

import json
import re
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple
from urllib.parse import parse_qsl

from ..families import FAMILIES
from ..options.conditions import did_you_mean
from ..options.values import KINDS, SCHEMA
from .errors import RequestError, invalid
from .settings import Settings

FORMATS = ("text", "html")
# The fields of LibreTranslate's interface (its own page sends a secret), and ours.
COMPATIBLE = ("q", "source", "target", "format", "alternatives", "api_key", "secret")
OWN = ("keep", "system")
# Of /v1/translate alone.
DETAILED = ("graph", "options")
_FORM = "application/x-www-form-urlencoded"
# The form of text of which plain text may keep parts.
KEPT = "placeholders"


_TASKS = {family.name: family.task for family in FAMILIES}


def _choices() -> Dict[str, Dict[str, Any]]:
    """Nothing that a request may choose names a file, or takes more than its share of time."""
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
    """Whether a value of a request is one that an entry of :data:`DECODING` describes."""
    if choice["type"] == "string":
        return isinstance(value, str) and value in choice["enum"]
    if choice["type"] == "boolean" or isinstance(value, bool):
        return choice["type"] == "boolean" and isinstance(value, bool)
    number = isinstance(value, int) or (choice["type"] == "number" and isinstance(value, float))
    # No comparison with nan is true.
    return number and choice["minimum"] <= value <= choice["maximum"]


def in_words(choice: Mapping[str, Any]) -> str:
    """The values that an entry of :data:`DECODING` describes, for a message."""
    if choice["type"] == "string":
        return "one of " + ", ".join(choice["enum"])
    if choice["type"] == "boolean":
        return "true or false"
    kind = "an integer" if choice["type"] == "integer" else "a number"
    return f"{kind} from {choice['minimum']} to {choice['maximum']}"


@dataclass(frozen=True)
class TranslationRequest:
    """A checked request.

    Attributes:
        texts: at least one.
        single: whether one text was given and not a list of them.
        source: language code, or ``auto``.
        target: language code.
        format: ``text`` or ``html``.
        alternatives: other translations that are asked for.
        system: name of one, or None for the first that fits.
        graph: whether the graphs of the translations are asked for.
        keep: whether placeholders of plain text are kept.
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


def parse_fields(body: bytes, content_type: str, query: str) -> Dict[str, Any]:
    """The fields of a request: JSON, a form, or the query; the body comes before the query.

    Raises:
        RequestError: 400 if the body does not match its content type, 415 if that is unknown.
    """
    fields: Dict[str, Any] = _pairs(query)
    kind = content_type.split(";")[0].strip().lower()
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        raise invalid("the body is not UTF-8") from None
    if kind == "application/json" or (not kind and text.lstrip().startswith("{")):
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
        raise RequestError(415, f"{wrong}: send application/json or {_FORM}")
    return fields


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _pairs(text: str) -> Dict[str, Any]:
    """Form fields; one that stands there several times is a list."""
    fields: Dict[str, Any] = {}
    try:
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=1000, errors="strict")
    except (ValueError, UnicodeDecodeError):
        raise invalid("the fields cannot be read: too many of them, or not UTF-8") from None
    for name, value in pairs:
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
    """The request of a translation.

    Args:
        fields: of the request.
        settings: its limits.
        detailed: of our own interface, not LibreTranslate's.

    Raises:
        RequestError: 400, naming the field.
    """
    _require_known(fields, (*COMPATIBLE, *OWN, *(DETAILED if detailed else ())))
    query = fields.get("q")
    if query is None or query == "" or query == []:
        raise invalid("missing q parameter")
    texts = _texts(query, settings)
    source, target = _word(fields, "source"), _word(fields, "target")
    form = fields.get("format") or "text"
    if form not in FORMATS:
        raise RequestError(400, f"{_shown(form)} format is not supported")
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
        alternatives=min(_count(fields, "alternatives", 0), settings.max_alternatives),
        system=system,
        graph=graph,
        keep=keep == KEPT,
    )


def decoding_options(fields: Mapping[str, Any], task: str) -> Dict[str, Any]:
    """The decoder's options of a request of our own interface.

    Args:
        fields: of the request.
        task: of the system that is asked.

    Raises:
        RequestError: 400 for an option that may not be chosen, or a value out of its range.
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
                f"option {_shown(name)} cannot be chosen here; there are: {', '.join(known)}"
            )
        if not accepts(DECODING[name], value):
            raise invalid(f"option {name} must be {in_words(DECODING[name])}")
    return {name: given[name] for name in sorted(given)}


def _require_known(fields: Mapping[str, Any], known: Sequence[str]) -> None:
    for name in fields:
        if name in known:
            continue
        if name in DETAILED:
            raise invalid(f"{name} is a field of /v1/translate")
        raise invalid(
            f"unknown field {_shown(name)}"
            + (did_you_mean(name[:40], known) or f"; there are: {', '.join(known)}")
        )


def text_of(fields: Mapping[str, Any], settings: Settings) -> str:
    """The one text whose language is asked for.

    Raises:
        RequestError: 400.
    """
    _require_known(fields, COMPATIBLE)
    query = fields.get("q")
    if query is None or query == "":
        raise invalid("missing q parameter")
    if not isinstance(query, str):
        raise invalid("q must be a string")
    return _texts(query, settings)[0]


def _texts(query: Any, settings: Settings) -> List[str]:
    texts = [query] if isinstance(query, str) else query
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise invalid("q must be a string or a list of strings")
    if len(texts) > settings.max_texts:
        raise invalid(f"request ({len(texts)}) exceeds batch limit ({settings.max_texts})")
    characters = sum(map(len, texts))
    if characters > settings.max_characters:
        raise invalid(f"request ({characters}) exceeds text limit ({settings.max_characters})")
    # Half of a surrogate pair can stand in JSON but in no response.
    return [re.sub("[\ud800-\udfff]", "\ufffd", text) for text in texts]


def _word(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name)
    if value is None or value == "":
        raise invalid(f"missing {name} parameter")
    if not isinstance(value, str):
        raise invalid(f"{name} must be a string")
    return value.strip().lower()


def _count(fields: Mapping[str, Any], name: str, default: int) -> int:
    value = fields.get(name)
    if value is None or value == "":
        return default
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,6}", value):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise invalid(f"{name} parameter is not a number")
    return value


def _shown(value: Any) -> str:
    """A value of a request as a message may repeat it: short and in one line."""
    text = value if isinstance(value, str) else json.dumps(value)
    # Neither separators of lines nor what turns round the direction of the words behind it.
    return re.sub(r"[^ -~\u00a1-\u2027\u202f-\u2065\u206a-\ud7ff\ue000-\uffff]", "?", text)[:40]


def unsupported_language(code: str) -> RequestError:
    """The answer to a language that no system has."""
    return RequestError(400, f"{_shown(code)} is not supported; see /languages")
