"""What the sender of a request reads when it is refused."""

from fairseq_hrt.native.server.errors import RequestError, invalid


def test_a_refusal_says_its_status_and_words():
    error = RequestError(429, "Slow down", {"Retry-After": "1"})
    assert (error.status, error.message, error.headers, str(error)) == (
        429,
        "Slow down",
        {"Retry-After": "1"},
        "Slow down",
    )
    # Each has headers of its own.
    plain, other = RequestError(403, "a"), RequestError(403, "b")
    plain.headers["x"] = "y"
    assert other.headers == {}


def test_what_cannot_be_understood():
    error = invalid("q must be a string")
    assert isinstance(error, RequestError)
    assert (error.status, error.message, error.headers) == (
        400,
        "Invalid request: q must be a string",
        {},
    )
