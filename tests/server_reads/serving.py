"""A real server over run folders: the routes that read, by the very application or with a table of folders alone."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount

from rltui.server.reading import reading
from rltui.server.reads import routes


class Folders:
    """The part of the server that knows jobs: here each run is known by the hex of its path."""

    def __init__(self) -> None:
        self.attempts: dict[str, int] = {}

    def folder(self, job_id: str) -> Path | None:
        try:
            return Path(bytes.fromhex(job_id).decode())
        except ValueError:
            return None

    def place(self, job_id: str) -> int | None:
        return None

    def attempt(self, job_id: str) -> int:
        return self.attempts.get(job_id, 0)


def job_of(folder: Path) -> str:
    return str(folder).encode().hex()


Runs = Callable[..., Path]  # of a kind, with other options of SynthConfig: a synthetic run that has ended


def jobs(server: Server, folder: Path, path: str, prefix: str = "/rl/jobs") -> str:
    """The address of something of a run."""
    return f"{server.url}{prefix}/{job_of(folder)}/{path}"


class Server:
    """Serves `app`, or the routes that read alone."""

    def __init__(self, port: int = 0, app: Starlette | None = None) -> None:
        self.jobs = Folders()
        self.app = app or Starlette(routes=[Mount("/api", routes=routes)])
        if app is None:
            self.app.state.jobs = self.jobs
        self._socket = socket.create_server(("127.0.0.1", port))
        self.port = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/api"
        self.http = httpx.Client(trust_env=False, timeout=30)
        config = uvicorn.Config(self.app, log_level="warning", timeout_graceful_shutdown=2)
        self._server = uvicorn.Server(config)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        self._loop.run_until_complete(self._server.serve([self._socket]))
        self._loop.close()

    def soon(self, call: Callable[[], object]) -> None:
        """Call it where the server runs."""
        self._loop.call_soon_threadsafe(call)

    def abort(self) -> None:
        """Go at once, as one that is killed: what was being sent is cut off."""
        self.cut()
        self.close()

    def cut(self) -> None:
        """Every connection, before anything else that the server does from now on."""

        def cut() -> None:
            for connection in list(self._server.server_state.connections):
                connection.transport.abort()

        self.soon(cut)

    def close(self) -> None:
        self.http.close()
        self.soon(reading(self.app).close)
        self._server.should_exit = True
        self._thread.join(10)
        self._socket.close()


@contextlib.contextmanager
def serving() -> Iterator[Server]:
    server = Server()
    try:
        yield server
    finally:
        server.close()
