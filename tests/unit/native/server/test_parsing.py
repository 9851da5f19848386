"""HTTP/1.1: the lines that h11 accepts, no more and no fewer, in linear time; no request with two
lengths."""

import re

import h11
import pytest
from h11 import _abnf, _readers
from hypothesis import given
from hypothesis import strategies as st

from fairseq_hrt.native.server.parsing import StrictConnection

HEAD = b"POST / HTTP/1.1\r\nHost: x\r\n"
LINES = {
    "header_field_re": (
        _abnf.header_field,
        [b"a", b"X-", b":", b" ", b"\t", b"\x00", b"\x7f", b"\r", b"\n", b"\xff", b"v"],
    ),
    "chunk_header_re": (
        _abnf.chunk_header,
        [b"1", b"fF", b"g", b";", b"e", b" ", b"\t", b"\r", b"\n", b"\r\n", b"0" * 9],
    ),
}


@pytest.mark.parametrize("name", LINES)
@given(st.data())
def test_the_same_lines_are_accepted(name, data):
    grammar, parts = LINES[name]
    start = b"a:" if name == "header_field_re" else b"1"
    line = data.draw(st.sampled_from([b"", start])) + b"".join(
        data.draw(st.lists(st.sampled_from(parts), max_size=12))
    )
    line += data.draw(st.sampled_from([b"", b"\r\n"]))
    expected, found = re.fullmatch(grammar.encode(), line), getattr(_readers, name).fullmatch(line)
    assert (found is None) == (expected is None)
    assert found is None or found.groupdict() == expected.groupdict()


@pytest.mark.parametrize(
    "received",
    [
        HEAD + b"X:" + b" " * 2_000_000 + b"\x00\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n1;" + b" " * 2_000_000 + b"\n\r\n",
    ],
)
def test_blanks_take_no_time(received):
    """h11's own expressions need three seconds for 30,000 and hours for these."""
    connection = StrictConnection(h11.SERVER, 1 << 22)
    connection.receive_data(received)
    with pytest.raises(h11.RemoteProtocolError, match="illegal"):
        while True:
            connection.next_event()


@pytest.mark.parametrize(
    "headers",
    [
        b"Content-Length: 3\r\nTransfer-Encoding: chunked",
        b"transfer-encoding: CHUNKED\r\ncontent-length: 0",
    ],
)
def test_two_lengths_are_refused(headers):
    connection = StrictConnection(h11.SERVER)
    connection.receive_data(HEAD + headers + b"\r\n\r\n0\r\n\r\n")
    with pytest.raises(h11.RemoteProtocolError, match="Content-Length beside Transfer-Encoding"):
        connection.next_event()


@pytest.mark.parametrize(
    "rest, body",
    [
        (b"Content-Length: 3\r\n\r\nabc", b"abc"),
        (b"Transfer-Encoding: chunked\r\n\r\n2 \r\nab\r\n0\r\n\r\n", b"ab"),
    ],
)
def test_one_length_is_enough(rest, body):
    connection = StrictConnection(h11.SERVER)
    connection.receive_data(HEAD + rest)
    assert isinstance(connection.next_event(), h11.Request)
    assert connection.next_event().data == body
    assert isinstance(connection.next_event(), h11.EndOfMessage)
