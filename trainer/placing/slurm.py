"""Nodes of the Slurm job that the coordinator is a part of: one step of `srun` runs an agent on each (srun(1)).

The coordinator is on the first of them. Where there is no other, it starts everything itself (choose.py): `srun` ends
its step at once when Slurm sends a SIGTERM to the whole job, and children of the coordinator outlive that.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys

from trainer.config import RunConfig
from trainer.placing.agents import AgentPlacing
from trainer.placing.base import PlacingError, Sink

ANSWER_S = 15.0
JOB, NODES, HERE = "SLURM_JOB_ID", "SLURM_JOB_NODELIST", "SLURMD_NODENAME"
IN_A_JOB = "start it with --target slurm, or inside a job of as many nodes (sbatch, salloc)"


class SlurmPlacing(AgentPlacing):
    """Of compute.nodes nodes. PlacingError: this is no job of Slurm, or one of fewer nodes."""

    def __init__(self, config: RunConfig, sink: Sink) -> None:
        super().__init__(config.compute.nodes, config.inference.startup_timeout_s, sink)
        if JOB not in os.environ:
            raise PlacingError('compute.launcher = "slurm", and this is no job of Slurm', IN_A_JOB)
        if shutil.which("srun") is None:
            raise PlacingError("srun is not installed on this node")
        given = int(os.environ.get("SLURM_JOB_NUM_NODES", "1"))
        if given < self._count:
            raise PlacingError(f"compute.nodes = {self._count}, and Slurm gave {given}", IN_A_JOB)

    def command(self, port: int) -> list[str]:
        agent = [sys.executable, "-P", "-m", "trainer.placing.agent", f"{own_address()}:{port}"]
        return [*srun(self._count), *agent]

    def why_late(self) -> str:
        return "see logs/launcher.log and `scontrol show step`"


def srun(nodes: int) -> list[str]:
    """One task a node, which has all that the job has there, and is left alone when another one ends. It shares that
    with the step that listens for signals."""
    shape = ["--overlap", f"--nodes={nodes}", f"--ntasks={nodes}", "--ntasks-per-node=1", "--cpu-bind=none"]
    return ["srun", *shape, "--kill-on-bad-exit=0", "--wait=0", "--input=none", "--unbuffered"]


def own_address() -> str:
    """Where the other nodes of the job reach this one: the name of a host often means its loopback at home."""
    others = [name for name in _hosts(os.environ.get(NODES, "")) if name != os.environ.get(HERE)]
    if others:
        said = _scontrol("show", "node", others[0], "--oneliner")
        found = re.search(r"\bNodeAddr=(\S+)", said)
        return address_towards(found[1] if found else others[0])
    return socket.gethostname()


def address_towards(host: str) -> str:
    """Of the interface of this machine that leads to `host`; nothing is sent. Raises PlacingError."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as probe:
            probe.connect(address)
            return str(probe.getsockname()[0])
    except OSError as error:
        raise PlacingError(f"there is no way from here to node {host}: {error.strerror or error}") from None


def _hosts(names: str) -> list[str]:
    return _scontrol("show", "hostnames", names).split() if names else []


def _scontrol(*words: str) -> str:
    """What it prints; nothing where it gives no answer."""
    try:
        return subprocess.run(["scontrol", *words], capture_output=True, text=True, timeout=ANSWER_S).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
