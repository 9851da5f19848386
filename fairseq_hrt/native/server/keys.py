"""API keys: reads a server's keys, and checks that a request has one of them."""

import hmac
from pathlib import Path
from typing import Any, List, Mapping, Optional, Sequence

from .errors import RequestError


def read_keys(path: Optional[Path]) -> List[str]:
    """Reads the API keys in a file, one per line; empty lines and lines that begin with ``#`` are
    left out. Without a file (None) there are no keys.

    Raises:
        ValueError: the file cannot be read or holds no key.
    """
    if path is None:
        return []
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8-sig").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"--key-file {path} cannot be read: {error}") from error
    keys = [line for line in lines if line and not line.startswith("#")]
    if not keys:
        raise ValueError(f"--key-file {path} holds no key: write one per line")
    return keys


def check_key(fields: Mapping[str, Any], authorization: str, keys: Sequence[str]) -> None:
    """Checks that a request has one of the API keys, in its field ``api_key`` or as a bearer token
    in its header ``authorization``. If there are no ``keys``, every request passes.

    Raises:
        RequestError: status 400 if the request has no key, 403 if its key is not one of ``keys``,
            as in LibreTranslate.
    """
    if not keys:
        return
    given = fields.get("api_key")
    encodings = ["utf-8"]
    if not isinstance(given, str) or not given:
        given = authorization[7:].strip() if authorization.lower().startswith("bearer ") else ""
        # Headers are read as Latin-1; some clients write that, others UTF-8.
        encodings.append("latin-1")
    # All of them are compared, so that the time does not tell which was close.
    matches = [
        hmac.compare_digest(given.encode(encoding, "surrogatepass"), key.encode())
        for encoding in encodings
        for key in keys
    ]
    if not any(matches):
        if given:
            raise RequestError(403, "Invalid API key")
        raise RequestError(400, "Please contact the server operator to get an API key")
