"""Names that a server answers to: those of this machine for itself, and those that it was told."""

import pytest

from fairseq_hrt.native.server.hosts import (
    canonical,
    canonical_origin,
    is_loopback,
    is_served,
)


@pytest.mark.parametrize(
    "header",
    [
        "localhost",
        "LocalHost:8080",
        "localhost.",
        "127.0.0.1",
        "127.255.0.9:1",
        "[::1]",
        "[::1]:8080",
        "[0:0:0:0:0:0:0:1]",
    ],
)
def test_this_machine(header):
    assert is_served(header, frozenset())


@pytest.mark.parametrize(
    "header",
    ["evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example",
     "127.0.0.1@evil.example", "10.0.0.1",
     "[::2]:80", "", ":80", "localhost:80:80", "localhost:x", "[::1", "::1]", "localhost/",
     "local host", "127.1", "0.0.0.0", "localhost.."],
)  # fmt: skip
def test_others(header):
    assert not is_served(header, frozenset())


@pytest.mark.parametrize(
    "allowed, header",
    [("translate.example.org", "Translate.Example.org:443"), ("a.b.", "a.b"),
     ("10.0.0.1", "10.0.0.1:80"), ("fd00::5", "[FD00:0::5]:80"),
     ("[fd00::5]", "[fd00::5]"), ("translate", "translate:8080")],
)  # fmt: skip
def test_names_that_are_allowed(allowed, header):
    names = frozenset([canonical(allowed)])
    assert (
        is_served(header, names)
        and is_served("localhost", names)
        and not is_served("x" + header, names)
    )


@pytest.mark.parametrize(
    "text", ["", "http://x", "x:80", "*", "a b", "a..b", "bücher.de", "[x]", "x/"]
)
def test_what_is_no_name(text):
    assert canonical(text) is None


def test_addresses_of_this_machine_only():
    assert is_loopback("::1") and is_loopback("127.9.9.9") and is_loopback("localhost")
    assert (
        not is_loopback("0.0.0.0")
        and not is_loopback("::")
        and not is_loopback("192.168.0.1")
        and not is_loopback("x")
    )


@pytest.mark.parametrize("origin, sent", [
    ("*", "*"), ("null", "null"), ("HTTPS://Example.org", "https://example.org"),
    ("https://x.org:443", "https://x.org"), ("http://x.org:80", "http://x.org"),
    ("http://x.org:443", "http://x.org:443"), ("http://[::1]:8080", "http://[::1]:8080"),
    ("moz-extension://a-b", "moz-extension://a-b"), ("http://", None), ("//x.org", None),
    ("http://a@x.org", None), ("http://x.org:", None), ("NULL", None),
])  # fmt: skip
def test_origins_are_spelled_as_browsers_send_them(origin, sent):
    assert canonical_origin(origin) == sent
