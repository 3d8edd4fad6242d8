"""Real agents on this machine, each of which is a node to a run."""

from __future__ import annotations

import sys
from pathlib import Path

import psutil

from trainer.placing.agents import AgentPlacing

# As a launcher does it: an agent a node, in another folder, until all have ended or it is told to end.
LAUNCHER = """
import subprocess, sys
port, count = int(sys.argv[1]), int(sys.argv[2])
command = [sys.executable, "-m", "trainer.placing.agent", f"127.0.0.1:{port}", "--node"]
agents = [subprocess.Popen([*command, str(node)], cwd="/") for node in range(count)]
for agent in agents:
    agent.wait()
"""


class HerePlacing(AgentPlacing):
    """`launcher`: a script in the place of the one above."""

    def __init__(self, count: int, launcher: str = LAUNCHER, timeout_s: float = 120.0) -> None:
        self.printed: list[bytes] = []
        super().__init__(count, timeout_s, self.printed.append)
        self._script = launcher

    def command(self, port: int) -> list[str]:
        return [sys.executable, "-c", self._script, str(port), str(self._count)]

    def why_late(self) -> str:
        return "look at the queue"

    def agent_of(self, node: int) -> psutil.Process:
        launcher = psutil.Process(self._launched.pid)
        return next(p for p in launcher.children() if p.cmdline()[-1] == str(node) and "agent" in p.cmdline()[2])


def home() -> str:
    return str(Path(__file__).resolve().parents[2])
