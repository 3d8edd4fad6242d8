"""Which addresses of clients the server, and the runs that it starts, may call.

A client of the server names the task app and the judge of its run, and this machine then calls them: what only this
machine can reach must not be told to that client. Allowed is http and https to any host but link-local, multicast and
unspecified addresses, the ones at which clouds hand out credentials, and IPv6 that carries an IPv4 address elsewhere,
under whatever name or spelling they come.
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
# Where clouds answer outside of link-local addresses: Alibaba, Oracle, Azure; then over IPv6 AWS (the block of all its
# services), Google, Oracle, Scaleway, Linode, Alibaba, all of them among private addresses, which are allowed.
METADATA = tuple(
    map(
        ipaddress.ip_network,
        (
            *("100.100.100.200", "192.0.0.192", "168.63.129.16"),
            *("fd00:ec2::/32", "fd20:ce::254", "fd00:c1::a9fe:a9fe"),
            *("fd00:42::42", "fd00:a9fe:a9fe::1", "fd00:100::100:200"),
        ),
    )
)
# IPv6 that leads to an IPv4 address which is not always to be read out of it: IPv4-compatible (which has ::1 in it),
# IPv4-translated, the NAT64 prefix of a network's own choice (RFC 8215), Teredo. No task app lives there.
CARRIERS = tuple(map(ipaddress.ip_network, ("::/96", "::ffff:0:0:0/96", "64:ff9b:1::/48", "2001::/32")))

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
    if address.is_loopback:
        return False
    special = address.is_link_local or address.is_multicast or address.is_unspecified
    special = special or any(address in network for network in METADATA + CARRIERS)
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
