"""The interface in a browser of this machine (`rltui --web`), by textual-serve: each page is a process of its own.

Whoever can open the page can do what the person at the terminal can. So it listens on the loopback address alone; its
address holds a secret, which the browser keeps as a cookie, so that other accounts of the machine get nothing; and it
takes no request from a page of another origin, which a browser would send with the person's own rights, nor one to
another host name, which a stranger's name server may lead here.
"""

from __future__ import annotations

import os
import re
import secrets
import shlex
import sys
from collections.abc import Sequence
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.typedefs import Handler
from textual_serve.server import Server

HOST = "127.0.0.1"
_NAMES = frozenset({"127.0.0.1", "localhost", "::1"})
# Its page asks a font server elsewhere for a font: the browser's own will do, and nobody else hears of the visit.
_FONT = re.compile(r"<link\s[^>]*fonts\.googleapis\.com[^>]*>")
_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "font-src 'self'; connect-src 'self' ws://127.0.0.1:* ws://localhost:*; frame-ancestors 'none'"
)


def allowed(host: str | None, origin: str | None, port: int) -> bool:
    """Whether a request with these headers comes from a page of ours, or from no page at all."""

    def ours(address: str) -> bool:
        try:
            parts = urlsplit(address)
            return parts.hostname in _NAMES and parts.port == port
        except ValueError:
            return False

    return ours(f"//{host}") and (origin is None or (origin.startswith("http://") and ours(origin)))


class LoopbackServer(Server):
    def __init__(self, command: str, port: int, secret: str) -> None:
        super().__init__(command, host=HOST, port=port, title="rltui")
        self._secret = secret
        self._cookie = f"rltui-{port}"  # a browser has one jar for all ports of a host

    async def _make_app(self) -> web.Application:
        app = await super()._make_app()
        app.middlewares.append(self._guard)
        app.on_response_prepare.append(_prepare)
        return app

    async def on_startup(self, app: web.Application) -> None:
        """What it would print, the caller says."""

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if not allowed(request.headers.get("Host"), request.headers.get("Origin"), self.port):
            raise web.HTTPForbidden(text="this page is for a browser on this machine")
        if request.path == "/" and self._same(request.query.get("key")):
            response = web.HTTPFound("/")
            response.set_cookie(self._cookie, self._secret, httponly=True, samesite="Strict")
            raise response
        if not self._same(request.cookies.get(self._cookie)):
            raise web.HTTPForbidden(text="open the address that `rltui --web` has printed: it holds the key")
        if request.path == "/ws" and request.headers.get("Upgrade", "").lower() != "websocket":
            raise web.HTTPBadRequest(text="a websocket is expected here")
        response = await handler(request)
        if request.path == "/" and isinstance(response, web.Response) and response.text:
            response.text = _FONT.sub("", response.text)
        return response

    def _same(self, given: str | None) -> bool:
        return given is not None and secrets.compare_digest(given.encode(), self._secret.encode())


async def _prepare(request: web.Request, response: web.StreamResponse) -> None:
    response.headers["Content-Security-Policy"] = _POLICY


def new_secret() -> str:
    return secrets.token_urlsafe(24)


def serve(options: Sequence[str], port: int, secret: str) -> None:
    """Until Ctrl-C. `options`: of the interface, for each page. OSError: the port is taken."""
    os.environ.update(TERM="xterm-256color", COLORTERM="truecolor")  # what the page can show, whatever we are in
    command = shlex.join([sys.executable, "-P", "-m", "rltui", *options])
    LoopbackServer(command, port, secret).serve()
