"""What a request can be answered with instead of a translation."""

from typing import Dict, Optional


class RequestError(Exception):
    """A request that is refused, with the status and the words that its sender reads.

    Attributes:
        status: of the response.
        message: for the field ``error``.
        headers: further ones of the response, e.g. ``Retry-After``.
    """

    def __init__(self, status: int, message: str, headers: Optional[Dict[str, str]] = None) -> None:
        super().__init__(message)
        self.status, self.message, self.headers = status, message, headers or {}


def invalid(message: str) -> RequestError:
    """A request that cannot be understood (400)."""
    return RequestError(400, f"Invalid request: {message}")
