"""Length-prefixed msgpack frames between our own processes (WIRE 4.6).

A frame is a 4-byte little-endian length and a msgpack map ``{type, id, ...}``. Everything here is transport:
what the maps mean stands beside the process that answers them.
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from typing import Any

import msgspec

SCHEMA = 1
MAX_FRAME = 1 << 31
TCP = "tcp://"  # what the target of a connection to another machine begins with; else it is a path
TOKEN = "RLTUI_RUN_TOKEN"  # the environment of whoever connects over the network holds the run token
_HEAD = struct.Struct("<I")

Frame = dict[str, Any]


def pack(message: Frame) -> bytes:
    body = msgspec.msgpack.encode(message)
    if len(body) >= MAX_FRAME:
        raise ValueError(f"frame of {len(body)} bytes is over the limit of {MAX_FRAME}")
    return _HEAD.pack(len(body)) + body


class Channel:
    """The asyncio end of a connection. `receive` returns None at the end of the stream."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def send(self, message: Frame) -> None:
        self.post(message)
        await self._writer.drain()

    def post(self, message: Frame) -> None:
        """Without waiting until the other end has room for it."""
        self._writer.write(pack(message))

    @property
    def ends(self) -> tuple[str, str]:
        """Over a network: the addresses of this end and of the other one."""
        return self._writer.get_extra_info("sockname")[0], self._writer.get_extra_info("peername")[0]

    async def receive(self, limit: int = MAX_FRAME) -> Frame | None:
        """ValueError: the frame is over `limit` bytes, or none."""
        try:
            (length,) = _HEAD.unpack(await self._reader.readexactly(4))
            if length > limit:
                raise ValueError(f"a frame of {length} bytes is over the limit of {limit}")
            return msgspec.msgpack.decode(await self._reader.readexactly(length))
        except (asyncio.IncompleteReadError, OSError):  # broken pipe, too: a write met the end first
            return None

    async def close(self) -> None:
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except OSError:
            pass


class BlockingChannel:
    """The same over a plain socket, for processes whose main loop is torch."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._file = sock.makefile("rb")

    @classmethod
    def connect(cls, target: str, **hello: Any) -> BlockingChannel:
        """`target`: the path of a Unix socket; or tcp://HOST:PORT, where `hello` and the run token go first. Raises
        OSError."""
        if not target.startswith(TCP):
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            sock.connect(target)
            return cls(sock)
        host, _, port = target.removeprefix(TCP).rpartition(":")
        sock = socket.create_connection((host, int(port)))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        channel = cls(sock)
        channel.send({"type": "hello", "schema": SCHEMA, "token": os.environ.get(TOKEN, ""), **hello})
        return channel

    def fileno(self) -> int:
        return self._sock.fileno()

    def send(self, message: Frame) -> None:
        self._sock.sendall(pack(message))

    def receive(self) -> Frame | None:
        head = self._file.read(4)
        if len(head) < 4:
            return None
        (length,) = _HEAD.unpack(head)
        body = self._file.read(length)
        return None if len(body) < length else msgspec.msgpack.decode(body)

    def close(self) -> None:
        self._file.close()
        self._sock.close()
