"""Where processes of a run connect to their coordinator, for frames (WIRE 4.6).

On one machine that is a Unix socket in a folder that only this user can enter; it is removed as soon as all have
connected, so that a crash leaves none. Across machines it is a port, where the first frame has to carry the run token:
{type: hello, schema, token, ...}. Whoever does not know it is cut off, and hears nothing.
"""

from __future__ import annotations

import asyncio
import hmac
import shutil
import socket
from collections.abc import Callable

from trainer import frames
from trainer.processes import socket_folder

HELLO_S = 10.0
MAX_HELLO = 1 << 16  # bytes
# A machine that is gone without a word is noticed after half a minute, by either end.
_IDLE_S, _EVERY_S, _TIMES = 15, 5, 3


class Listener:
    """`target` is what a process is given to connect to (frames.BlockingChannel.connect)."""

    target: str
    port: int | None = None

    def __init__(self, server: asyncio.Server, folder: str | None = None) -> None:
        self._server, self._folder = server, folder

    @classmethod
    async def at_socket(cls, accept: Callable[[frames.Channel, frames.Frame], object]) -> Listener:
        """Raises OSError where no folder for it can be made. `accept` gets an empty hello."""
        folder = socket_folder()

        def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            accept(frames.Channel(reader, writer), {})

        listener = cls(await asyncio.start_unix_server(connected, path=f"{folder}/s"), folder)
        listener.target = f"{folder}/s"
        return listener

    @classmethod
    async def at_port(
        cls, address: str, token: str, accept: Callable[[frames.Channel, frames.Frame], object]
    ) -> Listener:
        """`address`: of the interface to listen at; empty: all. Raises OSError."""

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            keep_alive(writer.get_extra_info("socket"))
            channel = frames.Channel(reader, writer)
            try:
                hello = await asyncio.wait_for(channel.receive(MAX_HELLO), HELLO_S)
            except (TimeoutError, ValueError):
                hello = None
            if hello is None or not _is_ours(hello, token):
                writer.close()
            else:
                accept(channel, hello)

        listener = cls(await asyncio.start_server(connected, address or None, 0, family=socket.AF_INET))
        listener.port = listener._server.sockets[0].getsockname()[1]
        listener.target = f"{frames.TCP}{address}:{listener.port}"
        return listener

    def close(self) -> None:
        """No further connections; repeatable."""
        self._server.close()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


async def listen(address: str | None, token: str, accept: Callable[[frames.Channel, frames.Frame], object]) -> Listener:
    """At a private socket, or where there is an `address` at a port of it. Raises OSError."""
    if address is None:
        return await Listener.at_socket(accept)
    return await Listener.at_port(address, token, accept)


def keep_alive(sock: socket.socket) -> None:
    """Has the kernel notice that the other machine is gone; a process that ends is told at once anyway."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", _IDLE_S), ("TCP_KEEPINTVL", _EVERY_S), ("TCP_KEEPCNT", _TIMES)):
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # the same while something is on its way
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, (_IDLE_S + _EVERY_S * _TIMES) * 1000)


def _is_ours(hello: frames.Frame, token: str) -> bool:
    given = hello.get("token")
    return isinstance(given, str) and hmac.compare_digest(given.encode(), token.encode())
