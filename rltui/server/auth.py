"""Who may talk to the server: the token, the Host and the Origin of a request, and how long its body may be.

A token is known by its SHA-256 alone: one of the environment is hashed at once and never written; one that is made
here is printed once, and its hash kept in a file of mode 0600. It has 256 random bits, so a plain hash is as good as
any, and guessing is no way in, however fast the answers come.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import json
import secrets
import socket
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rltui.places import write_private
from rltui.server.answers import Refused
from rltui.smoke.net import is_loopback_host

MAX_BODY = 5 << 20
LEAST_TOKEN_CHARS = 16  # where other machines can try
OPEN_PATHS = ("/api/health", "/api/version")
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


def hash_of(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def made_token(file: Path, *, renew: bool = False) -> tuple[bytes, str | None]:
    """The hash of the generated token, and the token itself where it was made just now: it is never seen again."""
    if not renew:
        try:
            return bytes.fromhex(json.loads(file.read_bytes())["sha256"]), None
        except (OSError, ValueError, KeyError, TypeError):
            pass
    token = secrets.token_urlsafe(32)
    write_private(file, json.dumps({"sha256": hash_of(token).hex()}).encode())
    return hash_of(token), token


@dataclass(frozen=True)
class Access:
    """
    Attributes:
        token: its hash; None: none is wanted.
        names: hosts by which the server may be called, besides the loopback ones.
        literals: whether any address in digits will do as well: where it listens to other machines. A name that a
            stranger's name server leads here is what the check is against, and digits ask no name server.
    """

    token: bytes | None = None
    names: Collection[str] = ()
    literals: bool = False

    @classmethod
    def of(cls, host: str, token: bytes | None, names: Collection[str] = ()) -> Access:
        """For a server that listens at `host`."""
        own = [] if is_loopback_host(host) else [host, socket.gethostname()]
        return cls(token, {name.lower() for name in (*own, *names)}, literals=not is_loopback_host(host))

    def check(self, path: str, headers: Headers) -> None:
        """Raises Refused."""
        host = _host(headers.get("host", ""))
        if not self._is_ours(host):
            raise Refused(400, "host_not_allowed", f"this server is not called {host[:100]!a} (rltui serve --name)")
        origin = headers.get("origin")
        if origin is not None and origin.rpartition("://")[2].lower() != headers.get("host", "").lower():
            raise Refused(403, "origin_not_allowed", "requests of web pages from elsewhere are not served")
        if self.token is not None and path not in OPEN_PATHS and not self._has_token(headers.getlist("authorization")):
            raise Refused(401, "unauthorized", "this server wants its token, as `Authorization: Bearer TOKEN`")
        if _length(headers.get("content-length")) > MAX_BODY:
            raise too_large()

    def _has_token(self, given: list[str]) -> bool:
        assert self.token is not None
        scheme, _, token = given[0].partition(" ") if len(given) == 1 else ("", "", "")
        return hmac.compare_digest(hash_of(token.strip()), self.token) and scheme.lower() == "bearer"

    def _is_ours(self, host: str) -> bool:
        if host in LOOPBACK_NAMES or host in self.names or is_loopback_host(host):
            return True
        try:
            ipaddress.ip_address(host)
        except ValueError:
            return False
        return self.literals


def too_large() -> Refused:
    return Refused(413, "too_large", f"a body of more than {MAX_BODY >> 20} MB")


def _host(header: str) -> str:
    """The host in a Host header, without its port and brackets."""
    try:
        return (urlsplit(f"//{header}").hostname or "").lower()
    except ValueError:
        return ""


def _length(text: str | None) -> int:
    return int(text) if text is not None and text.isascii() and text.isdigit() else 0


class Guard:
    """The ASGI layer in front of everything: nothing of a request is read before it may come in."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app, self._access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            self._access.check(scope["path"], Headers(scope=scope))
        except Refused as refused:
            await refused.response()(scope, receive, send)
            return
        read = 0

        async def bounded() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > MAX_BODY:
                raise too_large()
            return message

        await self._app(scope, bounded, send)
