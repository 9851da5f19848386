"""The names that a server answers to.

A web page of somebody else may give its own name the address of this machine (DNS rebinding): the
visitor's browser then takes the answers for that page's. But it sends in ``Host`` which name it
asked for.
"""

import ipaddress
import re
from typing import AbstractSet, Optional

_HEADER = re.compile(r"(\[[^\]]*\]|[^:]*)(?::[0-9]*)?")
_NAME = re.compile(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*")


def canonical(host: str) -> Optional[str]:
    """A name or an address as it is compared; None if it is neither."""
    try:
        return str(ipaddress.ip_address(re.sub(r"^\[(.*)\]$", r"\1", host)))
    except ValueError:
        name = host.lower().removesuffix(".")
        return name if _NAME.fullmatch(name) else None


def is_loopback(host: str) -> bool:
    """Whether it is ``localhost`` or an address that leads to this machine only."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_served(header: str, allowed: AbstractSet[Optional[str]]) -> bool:
    """Whether a request with this ``Host`` is answered: under the names of this machine for itself,
    and those that are allowed.

    Args:
        header: name or address, perhaps with a port, which may be any.
        allowed: canonical names.
    """
    parts = _HEADER.fullmatch(header)
    host = None if parts is None else canonical(parts[1])
    return host is not None and (host in allowed or is_loopback(host))
