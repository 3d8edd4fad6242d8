"""Where the processes of a run are placed (compute.launcher): on this machine, or on nodes that are given to the run.

A placing is one file that knows one way to get nodes. The coordinator decides what goes where (devices.py).
"""

from __future__ import annotations

import asyncio
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

Sink = Callable[[bytes], object]
LOST = -9  # the exit code of a process whose node was lost: whatever became of it, it has ended for us


class PlacingError(RuntimeError):
    """A node, or a process on it, could not be had. `hint` says what to do, `evidence` is what the launcher printed."""

    def __init__(self, message: str, hint: str = "", evidence: str = "") -> None:
        super().__init__(message)
        self.hint, self.evidence = hint, evidence


@dataclass(frozen=True, slots=True)
class Node:
    """One machine, or the part of it that the run was given."""

    name: str  # as logs and errors say it
    address: str  # at which the other nodes and the coordinator reach it
    gpus: tuple[str, ...]  # as CUDA_VISIBLE_DEVICES names them there
    cores: int


class Placed(ABC):
    """One process that was started, here or on a node. Its output goes to the sink that it was placed with."""

    role: str
    node: str = ""  # its name; empty: this machine
    lost: str = ""  # one sentence, once its node is lost and the process with it
    ended: asyncio.Future[int]  # its exit code, negative for a signal; LOST

    @property
    @abstractmethod
    def pid(self) -> int:
        """On its own node."""

    @property
    @abstractmethod
    def tail(self) -> str:
        """The last lines that it printed."""

    @abstractmethod
    async def terminate(self) -> None:
        """SIGTERM, then SIGKILL after a grace. Returns when the process is gone, and the group that it leads;
        repeatable, and never fails: of a lost node nothing is left to end."""


class Placing(ABC):
    """The nodes of a run. Whatever becomes of the coordinator, what it placed ends with it."""

    address: str | None = None  # where processes on the nodes reach the coordinator; None: they are on its machine
    nodes: Sequence[Node] = ()  # once `start` has returned

    def __init__(self) -> None:
        self.token = secrets.token_urlsafe(32)  # the run token: who connects over the network has to know it

    @abstractmethod
    async def start(self) -> None:
        """Returns when all nodes are there. Raises PlacingError."""

    @abstractmethod
    async def place(
        self,
        node: int,
        role: str,
        words: Sequence[str],
        *,
        sink: Sink,
        env: Mapping[str, str] | None = None,
        own_group: bool = False,
    ) -> Placed:
        """Starts `python WORDS` on a node. Raises PlacingError.

        Args:
            node: its number in `nodes`.
            words: what follows the interpreter, which is the node's own.
            env: goes over the node's own environment.
            own_group: it has children of its own, which are ended with it.
        """

    @abstractmethod
    async def free_port(self, node: int) -> int:
        """A port that nothing on the node listens on now. Raises PlacingError."""

    @abstractmethod
    async def check_sees(self, file: Path) -> None:
        """Raises PlacingError where a node does not see `file` of this machine under the same path: its first 4 KiB are
        compared."""

    @abstractmethod
    async def stop(self) -> None:
        """Ends what is left and gives the nodes back; repeatable."""
