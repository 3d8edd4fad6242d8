"""Where an address leads."""

from __future__ import annotations

import ipaddress
import socket
from urllib.parse import urlsplit

EVERYWHERE = ("0.0.0.0", "::")


def is_loopback(url: str) -> bool:
    """Whether an address leads to this host alone."""
    return is_loopback_host(urlsplit(url).hostname or "")


def is_loopback_host(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def address_towards(url: str) -> str | None:
    """Our own address on the way to a URL's host, by the routing table: nothing is sent. None: no way there."""
    try:
        host = urlsplit(url).hostname or "127.0.0.1"
        family, kind, _, _, target = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as probe:
            probe.connect(target)
            return str(probe.getsockname()[0]).partition("%")[0]
    except OSError:
        return None
