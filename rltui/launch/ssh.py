"""A host that can be logged in to: its job server is started or found by the system's ssh, and reached through it."""

from __future__ import annotations

import atexit
import os
import shlex
import threading
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from rltui.launch.base import Fact, Job, LaunchError
from rltui.launch.server import ServerLauncher
from rltui.launch.tunnel import Host, Tunnel

if TYPE_CHECKING:
    from rltui.backend import Backend


class SshLauncher(ServerLauncher):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._host = host_of(text)

    def shown(self, job: Job) -> str:
        command = shlex.join([*self._host.ssh(), "--", self._host.name, self._host.command()])
        return f"{command}\n{super().shown(job)}"

    def facts(self, job: Job | None = None) -> list[Fact]:
        try:
            tunnel = tunnel_to(self.name)
        except LaunchError as error:
            return [Fact("reachable", False, str(error), error.hint)]
        runs = f"its job server runs as pid {tunnel.server.get('pid')}, runs in {tunnel.server.get('runs_dir')}"
        return [Fact("login", True, f"{self._host.name}: {runs}"), *super().facts(job)]

    def _backend(self) -> Backend:
        return tunnel_to(self.name).backend()

    def _address(self, backend: Backend, job_id: str) -> str:
        return f"{self.name}/{job_id}"

    def _same_machine(self) -> bool:
        return False

    def _warnings(self) -> list[Fact]:
        return []


def host_of(text: str) -> Host:
    """ssh://[user@]host[:port]. Raises LaunchError: it is none."""
    wanted = "a target by ssh is ssh://USER@HOST or ssh://USER@HOST:PORT"
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise LaunchError(f"{text!a} is no host", wanted, refused=True) from None
    if parts.password is not None:
        raise LaunchError("a password in an address would be seen by all", "use a key: ssh-copy-id", refused=True)
    login = f"{parts.username}@{parts.hostname}" if parts.username else parts.hostname or ""
    plain = not parts.path.strip("/") and not parts.query and not parts.fragment
    if parts.scheme != "ssh" or not parts.hostname or login.startswith("-") or not plain:
        raise LaunchError(f"{text!a} is no host", wanted, refused=True)
    program = tuple(shlex.split(os.environ.get("RLTUI_SSH") or "ssh"))
    return Host(login, port, program, os.environ.get("RLTUI_REMOTE") or "rltui")


_TUNNELS: dict[str, Tunnel] = {}
_MAKING = threading.Lock()


def tunnel_to(server: str) -> Tunnel:
    """The open tunnel to ssh://user@host: one of this program, which ends with it. Raises LaunchError."""
    with _MAKING:
        if server not in _TUNNELS:
            tunnel = Tunnel(server, host_of(server))
            tunnel.open()
            _TUNNELS[server] = tunnel
            atexit.register(tunnel.close)
        return _TUNNELS[server]
