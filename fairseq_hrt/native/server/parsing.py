"""HTTP/1.1 as h11 reads it, in linear time and only where it can be read in one way."""

import re
from typing import Any

import h11
from h11 import _readers

# h11 0.16 divides a run of n blanks in n ways where a line turns out to be wrong behind it: a head
# of 60,000 blanks took 16 seconds, in which nobody was answered. These accept the same lines.
# "(?=(…))\1" takes all blanks or none.
_readers.header_field_re = re.compile(
    rb"(?P<field_name>[-!#$%&'*+.^_`|~0-9a-zA-Z]+):(?=([ \t]*))\2(?P<field_value>([^\x00\s]+(?:["
    rb" \t]+[^\x00\s]+)*)?)[ \t]*"
)
_readers.chunk_header_re = re.compile(
    rb"(?P<chunk_size>[0-9A-Fa-f]{1,20})(?:(?P<chunk_ext>;.*)|[ \t]*)\r\n"
)


class StrictConnection(h11.Connection):
    """A connection that refuses a request whose length stands there twice, in ways that may
    contradict each other.

    Where a proxy before the server takes the other one, the rest of a body is a request that it has
    not seen.
    """

    def next_event(self) -> Any:
        """See h11.

        Raises:
            h11.RemoteProtocolError: what was received is not HTTP, or ambiguous.
        """
        event = super().next_event()
        if isinstance(event, h11.Request):
            names = {name for name, _ in event.headers}
            if names >= {b"content-length", b"transfer-encoding"}:
                raise h11.RemoteProtocolError("Content-Length beside Transfer-Encoding")
        return event
