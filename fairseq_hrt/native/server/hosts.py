"""Checks the ``Host`` header of a request against the names of this server; spells hosts and
origins as browsers do.

An attacker's web page may have its own host name resolve to the address of this machine (DNS
rebinding). The visitor's browser then lets that page read this server's answers. But the ``Host``
header of such requests has the attacker's name.
"""

import ipaddress
import re
from typing import AbstractSet, Optional

_HEADER = re.compile(r"(\[[^\]]*\]|[^:]*)(?::[0-9]*)?")
_ORIGIN = re.compile(r"([a-z][a-z0-9+.-]*)://(\[[^\]]*\]|[^:]*)(?::([0-9]{1,5}))?")
_PORTS = {"http": "80", "https": "443"}
_NAME = re.compile(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*")


def canonical(host: str) -> Optional[str]:
    """A host's name or address in the spelling in which hosts are compared (lower case, without
    brackets or final dot); None if ``host`` is neither a name nor an address."""
    try:
        return str(ipaddress.ip_address(re.sub(r"^\[(.*)\]$", r"\1", host)))
    except ValueError:
        name = host.lower().removesuffix(".")
        return name if _NAME.fullmatch(name) else None


def canonical_origin(origin: str) -> Optional[str]:
    """The origin of a web page (``scheme://host:port``) in the spelling in which browsers send it:
    lower case, without a default port. ``*`` and ``null`` stay as they are; None if ``origin`` is
    none of these."""
    if origin in ("*", "null"):
        return origin
    parts = _ORIGIN.fullmatch(origin.lower())
    host = None if parts is None else canonical(parts[2])
    if parts is None or host is None:
        return None
    port = f":{parts[3]}" if parts[3] not in (None, _PORTS.get(parts[1])) else ""
    return f"{parts[1]}://{f'[{host}]' if ':' in host else host}{port}"


def is_loopback(host: str) -> bool:
    """Whether a host is ``localhost`` or an address that only this machine itself can reach."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_served(header: str, allowed: AbstractSet[Optional[str]]) -> bool:
    """Whether a request with this ``Host`` header is answered: the host must be a loopback address,
    ``localhost`` or an allowed name.

    Args:
        header: a name or address, perhaps with a port; the port is not checked.
        allowed: the allowed names, as :func:`canonical` returns them.
    """
    parts = _HEADER.fullmatch(header)
    host = None if parts is None else canonical(parts[1])
    return host is not None and (host in allowed or is_loopback(host))
