"""`rltui serve` without its words: a server on a socket until it is told to end, or one that is ensured to be there."""

from __future__ import annotations

import fcntl
import logging
import logging.handlers
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rltui.places import state_folder
from rltui.server import place
from rltui.server.auth import LEAST_TOKEN_CHARS, Access, hash_of, made_token
from rltui.server.checks import job_environment
from rltui.smoke.net import is_loopback_host
from trainer.rundir.jsonl import Json

if TYPE_CHECKING:
    from types import FrameType

TOKEN_VARIABLE = "RLTUI_API_KEY"
START_S = 30.0  # of a server that is ensured
GRACE_S = 5.0  # for requests under way when a server ends
UNREAD_MS = 120_000
LOG_BYTES = 4 << 20
FILES = 65_536  # open at once, where the machine allows it: each stream is one, and many machines begin with 1,024


class CannotServe(Exception):
    """One sentence; `usage`: it is wrong with what was asked for."""

    def __init__(self, message: str, *, usage: bool = False) -> None:
        super().__init__(message)
        self.usage = usage


@dataclass(frozen=True)
class Options:
    host: str
    port: int  # 0: a free one
    runs_dir: Path
    allow_code: bool
    cpu_jobs: int
    names: tuple[str, ...]
    new_token: bool
    trust: tuple[str, ...] = ()  # addresses to which keys of this machine may go

    def argv(self) -> list[str]:
        """The same server, started by its command."""
        # -P: a folder named `rltui` where the user happens to stand must not shadow ours
        argv = [sys.executable, "-P", "-m", "rltui", "serve", "--host", self.host, "--port", str(self.port)]
        argv += ["--runs-dir", str(self.runs_dir), "--cpu-jobs", str(self.cpu_jobs)]
        argv += ["--allow-code"] if self.allow_code else []
        argv += [word for name in self.names for word in ("--name", name)]
        return [*argv, *(word for url in self.trust for word in ("--trust", url))]


def serve(options: Options, announce: Callable[[Json, str | None], None]) -> None:
    """Serves until SIGTERM or SIGINT; the runs go on. `announce` gets what stands in server-PORT.json, and a token
    that was made just now. Raises CannotServe.
    """
    import uvicorn

    from rltui.server.app import job_server
    from rltui.server.jobs import Jobs
    from rltui.server.keys import trusted_origins
    from rltui.server.reading import reading
    from rltui.server.submit import House
    from rltui.server.table import InUse
    from trainer.taskapp.slow import Timely

    try:
        trusted = trusted_origins(options.trust, os.environ)
    except ValueError as error:
        raise CannotServe(str(error), usage=True) from error
    os.umask(0o077)
    _allow_files()
    token, made = _token(options)
    listening = _listen(options.host, options.port)
    port = listening.getsockname()[1]
    house = House(options.runs_dir, options.allow_code, job_environment(os.environ), trusted)
    try:
        jobs = Jobs(house, _places(options))
        _log_to(place.log_file(port))
    except InUse as error:
        raise CannotServe(str(error)) from error
    except OSError as error:
        raise CannotServe(
            f"{options.runs_dir} cannot be used: {error.strerror or error}; give another --runs-dir"
        ) from error
    app = job_server(jobs, Access.of(options.host, token, options.names))

    class Server(uvicorn.Server):
        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            """As there, but a signal that ended the server is not raised again: we have to tidy up."""
            before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
            try:
                yield
            finally:
                for number, handler in before.items():
                    signal.signal(number, handler)

        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            reading(app).close()  # or it would wait for streams that never end
            super().handle_exit(sig, frame)

    config = uvicorn.Config(
        app,
        http=Timely,
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=int(GRACE_S),
    )
    facts = {"url": f"http://{_shown(options.host)}:{port}/api", "runs_dir": str(options.runs_dir)}
    listening.listen(config.backlog)  # whoever is told of it now may come, and is answered once it runs
    told = place.tell(port, **facts, token=None, needs_token=token is not None, version=_version())
    try:
        announce(told, made)
        Server(config).run(sockets=[listening])
    finally:
        place.forget(port)


def ensure(options: Options) -> Json:
    """A server of this user at that port: the one that is there, else one that is started now and outlives us.

    Gives what stands in server-PORT.json, with the token of this environment. Raises CannotServe.
    """
    with _one_at_a_time(options.port):
        found = _answering(options.port)
        if found is None:
            found = _start(options)
    return {**found, "token": os.environ.get(TOKEN_VARIABLE) or None}


def _start(options: Options) -> Json:
    path = place.log_file(options.port)
    with _private(path) as log:
        begun = log.seek(0, os.SEEK_END)
        process = subprocess.Popen(
            options.argv(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [_home(), os.environ.get("PYTHONPATH")]))},
        )
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        if (found := _answering(options.port)) is not None:
            return found
        if process.poll() is not None:
            words = path.read_bytes()[begun:].decode(errors="replace").strip().splitlines()
            raise CannotServe(words[-1] if words else f"the server ended with status {process.returncode}; see {path}")
        time.sleep(0.05)
    process.terminate()
    raise CannotServe(f"the server did not answer within {START_S:.0f} s; see {path}")


def _answering(port: int) -> Json | None:
    """What a server of this user at that port wrote, once it answers: it may have been begun a moment ago, or be busy.
    None: there is none, or it does not answer within START_S."""
    deadline = time.monotonic() + START_S
    while (found := place.living(port)) is not None and time.monotonic() < deadline:
        if _answers(found["url"]):
            return found
        time.sleep(0.05)
    return None


def _answers(url: str) -> bool:
    import httpx

    try:
        return httpx.get(f"{url}/health", timeout=5.0, trust_env=False).status_code == 200
    except httpx.HTTPError:
        return False


def _token(options: Options) -> tuple[bytes | None, str | None]:
    """The hash of the token that clients need, and the token where it was made now."""
    own, elsewhere = os.environ.get(TOKEN_VARIABLE, "").strip(), not is_loopback_host(options.host)
    if own:
        if elsewhere and len(own) < LEAST_TOKEN_CHARS:
            why = f"{TOKEN_VARIABLE} is too short for a server that other machines reach"
            raise CannotServe(f"{why}: use at least {LEAST_TOKEN_CHARS} characters, or unset it", usage=True)
        return hash_of(own), None
    if not elsewhere and not options.new_token:
        return None, None
    return made_token(place.token_file(), renew=options.new_token)


def _places(options: Options) -> Any:
    from rltui.server.slots import Places
    from trainer.config.machine import count_gpus

    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    named = [part.strip() for part in (visible or "").split(",") if part.strip()]
    found = count_gpus(os.environ)
    return Places(tuple(named[:found] if visible is not None else map(str, range(found))), options.cpu_jobs)


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[
            0
        ]
        listening = socket.socket(family, kind)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(
            socket, "TCP_USER_TIMEOUT"
        ):  # taken over by each connection: what is sent and never received ends it
            listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNREAD_MS)
        listening.bind(address)
    except OSError as error:
        hint = "; see which process has it, or give another --port" if port else ""
        raise CannotServe(f"cannot listen on {host} port {port}: {error.strerror or error}{hint}") from error
    return listening


def _allow_files() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES if hard == resource.RLIM_INFINITY else min(FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):  # it serves fewer clients then
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _log_to(path: Path) -> None:
    from rltui.server.faults import Brief

    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handler = logging.handlers.RotatingFileHandler(path, maxBytes=LOG_BYTES, backupCount=1, delay=True)
    handler.setFormatter(Brief("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.WARNING)


def _shown(host: str) -> str:
    """The host in an address by which this very machine reaches the server."""
    if host in ("0.0.0.0", "::", ""):
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host


def _version() -> str:
    from rltui.server.catalog import version_of_us

    return version_of_us()


def _home() -> str:
    import rltui

    return str(Path(rltui.__file__).resolve().parent.parent)


@contextmanager
def _private(path: Path) -> Iterator[Any]:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "ab") as stream:
        yield stream


@contextmanager
def _one_at_a_time(port: int) -> Iterator[None]:
    """Two that ensure the same server do not start two."""
    with _private(state_folder() / f"server-{port}.lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
