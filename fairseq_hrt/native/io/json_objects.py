"""Reads JSON objects of unknown origin, without duplicate keys."""

import json
from typing import Any, Dict, List, Tuple

from .escaping import shown


def json_object(text: str) -> Dict[str, Any]:
    """Parses a JSON object.

    Raises:
        ValueError: the text is not a JSON object, or has a key twice. The message is the reason, on
            one line, to follow the name of the file and a colon.
    """
    try:
        document = json.loads(text, object_pairs_hook=_distinct)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except ValueError as error:
        raise ValueError(" ".join(str(error).split())) from None
    if not isinstance(document, dict):
        raise ValueError(f"it is {shown(document)}, not a JSON object")
    return document


def _distinct(pairs: List[Tuple[str, Any]]) -> Dict[str, Any]:
    """Makes the dictionary of a JSON object; raises ValueError for a duplicate key, since one
    program might check the first of its values and another use the last."""
    found: Dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"the key {shown(name)} appears twice")
        found[name] = value
    return found
