"""An ASGI app in a thread of this process, with an event loop of its own: whoever blocks theirs does not hold it up."""

from __future__ import annotations

import asyncio
import errno
import socket
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

import psutil
import uvicorn

from trainer.taskapp.server import server_config

T = TypeVar("T")

PORTS = 100  # that are tried
END_S = 10.0  # that the app is given to end


def listen(host: str, port: int, *, find: bool) -> socket.socket:
    """A socket that listens at `port`, or with `find` at the first free one from there. Nobody else is touched.

    Raises:
        RuntimeError: taken; it names the holder. Or it cannot be listened there at all.
    """
    last = min(port + PORTS if find else port + 1, 65536)
    for number in range(port, last):
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, number))
            listener.listen(1024)
        except OSError as error:
            listener.close()
            if error.errno != errno.EADDRINUSE:
                raise RuntimeError(f"cannot listen on {host}:{number}: {error.strerror or error}") from None
            continue
        return listener
    if find:
        raise RuntimeError(f"the ports {port} to {last - 1} of {host} are all taken; give another `port`")
    raise RuntimeError(
        f"port {port} of {host} is taken by {_holder(port)}; end that program, give another `port`, or allow "
        "auto_find_port"
    )


def _holder(port: int) -> str:
    with suppress(psutil.Error, OSError):
        for found in psutil.net_connections("tcp"):
            if found.status == psutil.CONN_LISTEN and found.laddr.port == port and found.pid is not None:
                return f"{psutil.Process(found.pid).name()} (pid {found.pid})"
    return "a program of another user"


class HostedApp:
    """`start` it, and `stop` it once. Signals stay with whoever handles them now."""

    def __init__(self, app: Any, listener: socket.socket) -> None:
        self._listener = listener
        self._server = uvicorn.Server(server_config(app))
        self._loop: asyncio.AbstractEventLoop | None = None
        self._up = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rltui-task-app", daemon=True)

    @property
    def ended(self) -> bool:
        """It ended by itself, as where its own start-up failed."""
        return self._up.is_set() and not self._thread.is_alive()

    def start(self) -> None:
        self._thread.start()
        self._up.wait()

    def run(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Runs a coroutine in the app's loop."""
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def stop(self) -> None:
        """Blocks until it has ended, at most END_S. Repeatable."""
        self._server.should_exit = True
        self._thread.join(END_S)
        self._listener.close()

    def _run(self) -> None:
        with suppress(SystemExit):  # uvicorn's way to end where a start-up failed
            asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._up.set()
        await self._server.serve(sockets=[self._listener])
