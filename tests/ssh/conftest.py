"""A real ssh server on loopback, with keys of its own, and the host that it leads to: a folder of this machine."""

from __future__ import annotations

import getpass
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

import rltui.launch.ssh
from tests.waiting import free_port

ROOT = Path(__file__).resolve().parents[2]
SSHD = shutil.which("sshd") or "/usr/sbin/sshd"
HERE = Path(__file__).parent


class There:
    """`name`: as a target. `remote`: the program rltui there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port, self.server_port = free_port(), free_port()
        self.user = getpass.getuser()
        self.name = f"ssh://{self.user}@127.0.0.1:{self.port}"
        for key in ("host", "user"):
            make_key(folder / key)
        (folder / "authorized").write_bytes((folder / "user.pub").read_bytes())
        self.know((folder / "host.pub").read_text())
        (folder / "sshd_config").write_text(
            f"Port {self.port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\n"
            f"AuthorizedKeysFile {folder}/authorized\nStrictModes no\nPermitRootLogin yes\n"
            "PidFile none\nUsePAM no\nPasswordAuthentication yes\nMaxStartups 50\n"
        )
        self.write_client()
        self.remote = folder / "rltui-there"
        self.remote.write_text(
            f"#!/bin/sh\ncd {folder} || exit 1\nexport PYTHONPATH={ROOT}:{HERE}/there XDG_STATE_HOME={folder}/state\n"
            f". {folder}/variables\necho a login that talks\n"
            f'exec {sys.executable} -P -m rltui "$@" --port {self.server_port}\n'
        )
        self.remote.chmod(0o755)
        self.vary()
        self.sshd: subprocess.Popen[bytes] | None = None
        self.begin()

    def know(self, key: str) -> None:
        (self.folder / "known").write_text(f"[127.0.0.1]:{self.port} {key}")

    def vary(self, **variables: str) -> None:
        """Variables of the fake runs there."""
        text = "".join(f"export {name}={value}\n" for name, value in variables.items())
        (self.folder / "variables").write_text(text)

    def write_client(self, key: str = "user") -> None:
        (self.folder / "config").write_text(
            f"Host *\nIdentityFile {self.folder}/{key}\nIdentitiesOnly yes\nIdentityAgent none\n"
            f"UserKnownHostsFile {self.folder}/known\nGlobalKnownHostsFile /dev/null\n"
        )

    def environment(self) -> dict[str, str]:
        """Of whoever goes there."""
        own = {name: value for name, value in os.environ.items() if not name.startswith(("RLTUI", "SYNTH_"))}
        ssh = f"ssh -F {self.folder}/config"
        return {**own, "PYTHONPATH": str(ROOT), "RLTUI_SSH": ssh, "RLTUI_REMOTE": str(self.remote)}

    def begin(self) -> None:
        with (self.folder / "sshd.log").open("ab") as log:
            self.sshd = subprocess.Popen(
                [SSHD, "-D", "-e", "-f", self.folder / "sshd_config"], stderr=log, start_new_session=True
            )
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.02)
        raise AssertionError((self.folder / "sshd.log").read_text())

    def cut(self) -> None:
        """No connection any more, and none to be had."""
        assert self.sshd is not None
        for process in (*_children(self.sshd.pid), self.sshd.pid):
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.sshd.wait()

    def silence(self) -> None:
        self._signal(signal.SIGSTOP)

    def speak(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        assert self.sshd is not None
        for process in (*_children(self.sshd.pid), self.sshd.pid):
            if Path(f"/proc/{process}/comm").read_text().startswith("sshd"):
                os.kill(process, number)

    def server(self) -> dict:
        return json.loads((self.folder / "state" / "rltui" / f"server-{self.server_port}.json").read_text())

    def end(self) -> None:
        self.cut()
        try:
            os.kill(self.server()["pid"], signal.SIGTERM)
        except (FileNotFoundError, ProcessLookupError):
            pass


def make_key(path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)


def _children(pid: int) -> list[int]:
    """Of a process, those of its children too; sshd's have sessions of their own."""
    try:
        found = [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
    return [*found, *(inner for child in found for inner in _children(child))]


@pytest.fixture
def there(tmp_path, monkeypatch):
    if not Path(SSHD).exists() or shutil.which("ssh") is None:
        pytest.skip("needs an ssh server and client: apt install openssh-server")
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    folder = tmp_path / "there"
    folder.mkdir(mode=0o700)
    host = There(folder)
    for name, value in host.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(rltui.launch.ssh, "_TUNNELS", {})
    yield host
    for tunnel in rltui.launch.ssh._TUNNELS.values():
        tunnel.close()
    host.end()
