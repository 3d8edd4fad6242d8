"""A real Ray cluster on this machine: each node is a `ray start --block`, which ends with its own processes alone."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import httpx
import psutil

from trainer.processes import die_with_parent

SMALL = ["--object-store-memory", "100000000", "--disable-usage-stats", "--block"]
START_S = 600  # where others use the cores, too
RAY = [sys.executable, "-c", "import sys; from ray.scripts.scripts import main; sys.exit(main())"]
HOME = str(Path(__file__).resolve().parents[2])


class Cluster:
    """`address` for `ray.init`; `dashboard` is the HTTP address of Ray Jobs."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._temp = tempfile.mkdtemp(prefix="ray-", dir="/tmp")  # Ray's sockets need a short path
        self._nodes: list[subprocess.Popen[bytes]] = []
        self.head_port, self.dashboard_port = _free_port(), _free_port()
        self.host = _address()
        self.address = f"{self.host}:{self.head_port}"
        self.dashboard = f"http://127.0.0.1:{self.dashboard_port}"

    def start(self, *, cpus: int = 1) -> None:
        client = ["--ray-client-server-port", str(_free_port())]
        where = ["--node-ip-address", self.host, "--port", str(self.head_port), "--temp-dir", self._temp]
        board = ["--include-dashboard", "true", "--dashboard-port", str(self.dashboard_port)]
        self._start("--head", *where, *client, *board, "--num-cpus", str(cpus), "--num-gpus", "0")
        self._wait_for_more_than(set())

    def add(self, *, cpus: int = 1, gpus: int = 0) -> None:
        """One node more; returns when the cluster has it."""
        before = self.nodes()
        sizes = ["--num-cpus", str(cpus), "--num-gpus", str(gpus)]
        self._start("--address", self.address, "--node-ip-address", self.host, *sizes)
        self._wait_for_more_than(before)

    def _start(self, *words: str) -> None:
        with (self._folder / f"node-{len(self._nodes)}.log").open("ab") as log:
            # A node's workers are to find what they need by what the run says, not by where the tests stand.
            env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "RAY_ADDRESS")}
            self._nodes.append(
                subprocess.Popen(
                    [*RAY, "start", *words, *SMALL],
                    env={**env, "RAY_raylet_start_wait_time_s": str(START_S)},
                    cwd="/",
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    preexec_fn=die_with_parent,
                )
            )

    @property
    def head_pid(self) -> int:
        return self._nodes[0].pid

    def nodes(self) -> set[str]:
        """Ids of those that are alive, as the dashboard tells. Ray's own client would end this process where the head
        is not there yet."""
        try:
            told = httpx.get(f"{self.dashboard}/nodes?view=summary", timeout=20.0).json()["data"]["summary"]
            return {node["raylet"]["nodeId"] for node in told if node["raylet"].get("state") == "ALIVE"}
        except (httpx.HTTPError, ValueError, KeyError):
            return set()

    def _wait_for_more_than(self, before: set[str]) -> None:
        deadline = time.monotonic() + START_S
        while not self.nodes() - before:
            dead = self._nodes[-1].poll() is not None
            assert not dead and time.monotonic() < deadline, f"Ray did not start ({dead}): {self._folder}"
            time.sleep(0.2)

    def kill_node_of(self, process: psutil.Process) -> None:
        """At once and without a word, as a machine that loses its power: its raylet, and the workers below it."""
        raylet = next(p for p in process.parents() if p.name() == "raylet")
        below = raylet.children(recursive=True)
        for one in [raylet, *below]:
            with suppress(psutil.Error):
                one.kill()

    def stop(self) -> None:
        for node in reversed(self._nodes):
            with suppress(ProcessLookupError):
                os.killpg(node.pid, signal.SIGTERM)
        for node in self._nodes:
            try:
                node.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(node.pid, signal.SIGKILL)
        shutil.rmtree(self._temp, ignore_errors=True)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def _address() -> str:
    """Of this machine, as others would reach it; the loopback where it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        try:
            out.connect(("192.0.2.1", 9))  # nothing is sent
            return str(out.getsockname()[0])
        except OSError:
            return "127.0.0.1"
