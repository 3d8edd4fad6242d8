"""A port before a server, which can be shut for a while: nobody listens there, and what was connected is cut."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Thread

from tests.waiting import free_port


class Door:
    def __init__(self, url: str) -> None:
        """url: of the server, `http://HOST:PORT`."""
        host, _, port = url.removeprefix("http://").partition(":")
        self._behind, self._port = (host, int(port)), free_port()
        self._connected: set[socket.socket] = set()
        self.url = f"http://127.0.0.1:{self._port}"
        self.open()

    def open(self) -> None:
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", self._port))
        listener.listen(64)
        self._listener = listener
        Thread(target=self._let_in, args=(listener,), daemon=True).start()

    def shut(self) -> None:
        for each in (self._listener, *self._connected):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)  # which wakes whoever waits on it
        self._listener.close()

    @contextmanager
    def away(self) -> Iterator[None]:
        self.shut()
        try:
            yield
        finally:
            self.open()

    def _let_in(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                near, _ = listener.accept()
                far = socket.create_connection(self._behind)
                for source, sink in ((near, far), (far, near)):
                    self._connected.add(source)
                    Thread(target=self._pass_on, args=(source, sink), daemon=True).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                sink.sendall(data)
        self._connected.discard(source)
        for each in (source, sink):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
