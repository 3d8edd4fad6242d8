"""All processes on this machine, as children of the coordinator."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from trainer.placing.base import Node, Placing, Sink
from trainer.processes import Child, spawn
from trainer.rundir.process import host_name

LOOPBACK = "127.0.0.1"


class LocalPlacing(Placing):
    """One node. What is placed knows its coordinator by a private socket, and ends with it (processes.py)."""

    def __init__(self, gpus: Sequence[str] = ()) -> None:
        super().__init__()
        self.nodes = [Node(host_name(), LOOPBACK, tuple(gpus), os.cpu_count() or 1)]

    async def start(self) -> None:
        return

    async def place(
        self,
        node: int,
        role: str,
        words: Sequence[str],
        *,
        sink: Sink,
        env: Mapping[str, str] | None = None,
        own_group: bool = False,
    ) -> Child:
        return await spawn(role, [sys.executable, *words], sink=sink, env=env, own_group=own_group)

    async def free_port(self, node: int) -> int:
        return free_port(LOOPBACK)

    async def check_sees(self, file: Path) -> None:
        return

    async def stop(self) -> None:
        """Each child is ended by whoever placed it."""


def free_port(address: str) -> int:
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as free:
        free.bind((address, 0))
        port: int = free.getsockname()[1]
        return port
