"""A port of this machine that leads to the job server of another, by the system's ssh, made again when it breaks.

One ssh process is all: it runs `rltui serve --ensure --json` there, whose answer tells the port to forward, then waits
for the end of its input. So it ends with this program, however that ends, and the server does not.
"""

from __future__ import annotations

import json
import os
import selectors
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from rltui.backend import Backend, BackendError
from rltui.launch.base import LaunchError
from rltui.launch.ssh_words import explain

Json = dict[str, Any]

BEGIN_S = 60.0  # for the login, and for a server that has to be started there
FORWARD_S = 15.0
WAITS_S = (0.5, 1.0, 2.0, 4.0, 8.0, 15.0)  # between tries to connect again; then the last one
MOST_BYTES = 1 << 20  # of what a login may print before the server's answer
# No question is ever asked. A dead connection is noticed after 15 s. What the user's own configuration says of
# sharing connections, of commands and of terminals does not hold here.
OPTIONS = (
    "BatchMode=yes",
    "ConnectTimeout=10",
    "ServerAliveInterval=5",
    "ServerAliveCountMax=3",
    "ControlPersist=no",
    "RemoteCommand=none",
    "RequestTTY=no",
    "ForwardX11=no",
    "ForwardAgent=no",
)


@dataclass(frozen=True)
class Host:
    name: str  # [user@]host
    port: int | None
    program: tuple[str, ...]  # ssh, with options of the user's own
    remote: str  # the program rltui there: a piece of a shell's line

    def ssh(self) -> list[str]:
        options = [part for option in OPTIONS for part in ("-o", option)]
        return [*self.program, *options, *(["-p", str(self.port)] if self.port else [])]

    def command(self) -> str:
        return f"{self.remote} serve --ensure --json && exec cat >/dev/null"


class Tunnel:
    """`server`: what the server there says of itself {url, pid, runs_dir, token, …}, once it is open."""

    def __init__(self, name: str, host: Host) -> None:
        self.name, self.host = name, host
        self.server: Json = {}
        self.why = ""  # it is down; "" while it is up
        self._folder = Path(tempfile.mkdtemp(prefix="rltui-"))  # 0700
        self._control = self._folder / "c"  # a short path: a socket's may have 104 bytes
        self._port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = threading.Event()
        self._lock = threading.Lock()  # of self._process, against closing while it is made
        self._backend: Backend | None = None

    def open(self) -> None:
        """Raises LaunchError: no connection, or no server there. Afterwards it looks after itself."""
        try:
            self._connect()
        except LaunchError:
            self.close()
            raise
        threading.Thread(target=self._keep, name=f"tunnel to {self.host.name}", daemon=True).start()

    def backend(self) -> Backend:
        if self._backend is None:
            self._backend = _Through(self)
        return self._backend

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def close(self) -> None:
        with self._lock:
            self._closed.set()
            process = self._process
        if process is not None:
            _end(process)
        if self._backend is not None:
            self._backend.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _keep(self) -> None:
        """Wait for the end of the connection and make a new one, again and again."""
        while True:
            process = self._process
            assert process is not None
            process.wait()
            if self._closed.is_set():
                return
            self.why = "the connection was lost"
            tries = 0
            while not self._closed.wait(WAITS_S[min(tries, len(WAITS_S) - 1)]):
                tries += 1
                try:
                    self._connect()
                    break
                except LaunchError as error:
                    self.why = str(error)
                except OSError as error:
                    self.why = str(error.strerror or error)

    def _connect(self) -> None:
        self._control.unlink(missing_ok=True)
        argv = [*self.host.ssh(), "-M", "-S", str(self._control), "--", self.host.name, self.host.command()]
        words = self._folder / "words"
        with self._lock, words.open("wb") as stderr:
            if self._closed.is_set():
                return
            try:
                process = self._process = subprocess.Popen(
                    argv,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=stderr,
                    start_new_session=True,  # Ctrl-C is for us
                )
            except OSError as error:
                hint = "install the client of OpenSSH, or set RLTUI_SSH to its path"
                raise LaunchError(f"{argv[0]} cannot be run: {error.strerror}", hint) from error
        try:
            self.server = _answer(process)
            self._forward(urlsplit(str(self.server["url"])).netloc)
        except (TimeoutError, EOFError, LaunchError) as error:
            _end(process)
            if isinstance(error, LaunchError):
                raise
            text = words.read_text(errors="replace") if words.exists() else ""
            message, hint = explain(self.host.name, process.returncode, text, late=isinstance(error, TimeoutError))
            raise LaunchError(message, hint) from None
        self.why = ""

    def _forward(self, there: str) -> None:
        """A port that somebody took since it was found free is given up for another, as long as nobody knows it."""
        for tries_left in (2, 1, 0):
            try:
                return self._lead(there)
            except LaunchError:
                if not tries_left or self._backend is not None:
                    raise
                self._port = _free_port()

    def _lead(self, there: str) -> None:
        way = f"127.0.0.1:{self._port}:{there}"
        argv = [*self.host.ssh(), "-S", str(self._control), "-O", "forward", "-L", way, "--", self.host.name]
        try:
            done = subprocess.run(
                argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=FORWARD_S, start_new_session=True
            )
        except subprocess.TimeoutExpired:
            raise LaunchError(f"{self.host.name} gives no answer any more") from None
        if done.returncode != 0:
            text = done.stderr.decode(errors="replace").strip().splitlines()
            why = text[-1] if text else f"status {done.returncode}"
            raise LaunchError(f"port {self._port} cannot be led to {self.host.name}: {why}", "try again")


class _Through(Backend):
    """The server at the tunnel's other end. Where nothing answers, the tunnel knows why."""

    def __init__(self, tunnel: Tunnel) -> None:
        super().__init__(tunnel.url, tunnel.server.get("token"))
        self._tunnel = tunnel

    def _no_answer(self, error: Exception) -> BackendError:
        found = super()._no_answer(error)
        if self._tunnel.why:
            return BackendError(f"no answer from {self._tunnel.name}: {self._tunnel.why}; connecting again")
        return BackendError(found.detail.replace(self.url, self._tunnel.name))


def _answer(process: subprocess.Popen[bytes]) -> Json:
    """What the server there says of itself: the first line that is such an object, whatever a login prints.

    Raises TimeoutError, EOFError.
    """
    assert process.stdout is not None
    deadline, seen = time.monotonic() + BEGIN_S, b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while len(seen) < MOST_BYTES:
            if not selector.select(max(0.0, deadline - time.monotonic())):
                raise TimeoutError
            piece = os.read(process.stdout.fileno(), 65536)
            if not piece:
                process.wait()
                raise EOFError
            *lines, seen = (seen + piece).split(b"\n")
            for line in lines:
                if (found := _object(line)) is not None and "url" in found:
                    return found
    raise EOFError


def _object(line: bytes) -> Json | None:
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _end(process: subprocess.Popen[bytes]) -> None:
    """Its input ends, and so does it; if not, it is told to."""
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()
    for signal_ in (process.terminate, process.kill):
        try:
            process.wait(1.0)
            return
        except subprocess.TimeoutExpired:
            signal_()
    process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
