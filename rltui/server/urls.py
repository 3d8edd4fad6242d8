"""Which addresses of clients the server, and the runs that it starts, may call.

A client of the server names the task app and the judge of its run, and this machine then calls them: what only this
machine can reach must not be told to that client. Allowed is http and https to any host but link-local, multicast and
unspecified addresses and the ones at which clouds hand out credentials, under whatever name or spelling they come.
Loopback and private addresses are allowed, since task apps usually live there: whoever must not reach those must not
reach the server either. A name is looked up here and again when it is called; a name server that answers differently
the second time can still lead to a forbidden address. Redirects are followed to the same origin alone (WIRE 1.4).
"""

from __future__ import annotations

import ipaddress
import re
import socket
from urllib.parse import urlsplit

METADATA_NAMES = ("metadata", "metadata.google.internal", "metadata.goog", "instance-data")
METADATA = tuple(map(ipaddress.ip_address, ("100.100.100.200", "192.0.0.192", "168.63.129.16", "fd00:ec2::254")))

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def why_not(url: str) -> str | None:
    """Why an address may not be called, in words that follow its key; None: it may. Looks its name up."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return "it is not an address"
    if parts.scheme not in ("http", "https"):
        return "only http and https addresses are called"
    if not host or port == 0:
        return "it names no host"
    if "@" in parts.netloc or "?" in url or "#" in url:
        return "a password, or what follows a ? or #, has no place in it: keys go into headers, paths are put behind it"
    if host.rstrip(".") in METADATA_NAMES:
        return f"{host} is where a cloud hands out credentials"
    for address in _addresses(host, port or 80):
        if is_forbidden(address):
            return f"{host} is {address}, a link-local, metadata or other special address"
    return None


def is_forbidden(address: Address) -> bool:
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or _nat64(address)
        if inner is not None:
            return is_forbidden(inner)
    special = address.is_link_local or address.is_multicast or address.is_unspecified or address in METADATA
    return special or (address.version == 4 and address.is_reserved)


def _nat64(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    network = ipaddress.ip_network("64:ff9b::/96")
    return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF) if address in network else None


def _addresses(host: str, port: int) -> list[Address]:
    """All that a name stands for, in any spelling that the system takes; none where it is not known (yet)."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    return [ipaddress.ip_address(str(item[4][0]).partition("%")[0]) for item in found]


def origin_of(url: object) -> str | None:
    """Scheme, host and port of an http(s) address, in one spelling; None: it is none."""
    try:
        parts = urlsplit(str(url))
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or not host:
        return None
    host = f"[{host}]" if ":" in host else host.rstrip(".")
    return f"{parts.scheme}://{host}:{port or (443 if parts.scheme == 'https' else 80)}"


def bare(url: str) -> str:
    """An address for showing: without a password, and without what stands behind a ? or #, which may be one."""
    return re.split(r"[?#]", without_user(url), maxsplit=1)[0]


def without_user(url: str) -> str:
    """An address without the name and password that may stand in it."""
    scheme, separator, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{separator}{host.rpartition('@')[2]}{slash}{path}" if separator else url
