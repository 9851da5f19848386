"""The error with which a request is answered instead of a translation."""

from typing import Dict, Optional


class RequestError(Exception):
    """The refusal of a request.

    Attributes:
        status: HTTP status of the response.
        message: text of the response's field ``error``.
        headers: further headers of the response, e.g. ``Retry-After``.
    """

    def __init__(self, status: int, message: str, headers: Optional[Dict[str, str]] = None) -> None:
        super().__init__(message)
        self.status, self.message, self.headers = status, message, headers or {}


def invalid(message: str) -> RequestError:
    """Makes the error for a request whose content is refused (status 400). ``message``: why."""
    return RequestError(400, f"Invalid request: {message}")
