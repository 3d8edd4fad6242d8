"""A real Slurm of two nodes on this machine: munged, slurmctld, a slurmd each, with all that they write in one folder.

Needs root, as slurmd starts jobs as whoever submitted them, and Debian's packages slurm-wlm and munge. There are no
accounts (slurmdbd): sacct says so.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from trainer.processes import die_with_parent

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol", "scancel", "srun")
NODES = ("n1", "n2")
READY_S = 30.0

_CONFIG = """
ClusterName=here
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
# A requeued job begins again when the credential of its last start has expired.
AuthInfo=socket={folder}/munge/socket,cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,sched_min_interval=0
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
KillWait={kill_wait}
GresTypes=gpu
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={port_1} CPUs=4 RealMemory=4000 Gres=gpu:2
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={port_2} CPUs=4 RealMemory=4000 Gres=gpu:2
PartitionName=main Nodes=n1,n2 Default=YES MaxTime=60 DefaultTime=30 State=UP PriorityTier=1 GraceTime=30
PartitionName=urgent Nodes=n1,n2 MaxTime=60 DefaultTime=30 State=UP PriorityTier=2
PartitionName=closed Nodes=n1,n2 MaxTime=60 DefaultTime=30 State=DOWN
"""


class NotHere(Exception):
    """Why there can be no cluster on this machine."""


class Cluster:
    """`environ` is what lets Slurm's commands find it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environ = {"SLURM_CONF": str(folder / "slurm.conf")}

    def ask(self, *argv: str) -> str:
        """What one of Slurm's commands prints."""
        done = subprocess.run(argv, env={**os.environ, **self.environ}, capture_output=True, text=True, timeout=30)
        if done.returncode:
            raise RuntimeError(f"{' '.join(argv)}: {done.stderr.strip()}")
        return done.stdout

    def state(self, job: str) -> str:
        return self.ask("squeue", "--noheader", "--states=all", f"--jobs={job}", "--format=%T").strip()


def missing() -> str | None:
    """Why there can be no cluster here; None: there can."""
    absent = [name for name in PROGRAMS if shutil.which(name) is None]
    if absent:
        return f"{', '.join(absent)} not installed (Debian: slurm-wlm and munge)"
    return None if os.geteuid() == 0 else "a slurmd has to be started by root"


@contextmanager
def cluster(*, kill_wait: int = 15) -> Iterator[Cluster]:
    """kill_wait: seconds from Slurm's last SIGTERM to its SIGKILL. Raises NotHere."""
    if reason := missing():
        raise NotHere(reason)
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))  # a short one: a socket's path has to fit into 108 bytes
    started: list[subprocess.Popen[bytes]] = []
    try:
        found = Cluster(folder)
        _write(folder, kill_wait)
        _munge(folder, started)
        config = str(folder / "slurm.conf")
        _begin(folder, started, "slurmctld", "-D", "-f", config)
        for node in NODES:
            _begin(folder, started, "slurmd", "-D", "-N", node, "-f", config)
        _wait(lambda: _idle(found), folder, started)
        yield found
    finally:
        _end(folder, started)


def _write(folder: Path, kill_wait: int) -> None:
    for name in ("munge", "state", "spool"):
        (folder / name).mkdir(mode=0o700)
    (folder / "munge" / "key").write_bytes(secrets.token_bytes(1024))
    (folder / "munge" / "key").chmod(0o400)
    ports = _free_ports(3)
    text = _CONFIG.format(
        host=socket.gethostname(),
        folder=folder,
        kill_wait=kill_wait,
        port=ports[0],
        port_1=ports[1],
        port_2=ports[2],
    )
    (folder / "slurm.conf").write_text(text)
    for number in range(2):  # what stands in for a GPU's device file
        (folder / f"gpu{number}").touch()
    (folder / "gres.conf").write_text(f"AutoDetect=off\nName=gpu File={folder}/gpu[0-1]\n")
    folder.chmod(0o755)


def _munge(folder: Path, started: list[subprocess.Popen[bytes]]) -> None:
    home = folder / "munge"
    home.chmod(0o711)
    names = {"socket": "socket", "key-file": "key", "log-file": "log", "pid-file": "pid", "seed-file": "seed"}
    options = [f"--{option}={home / name}" for option, name in names.items()]
    _begin(folder, started, "munged", "--foreground", "--force", *options)
    _wait((home / "socket").exists, folder, started)


def _begin(folder: Path, started: list[subprocess.Popen[bytes]], *argv: str) -> None:
    with (folder / f"{argv[0]}.out").open("ab") as log:
        started.append(subprocess.Popen(argv, stdout=log, stderr=log, stdin=subprocess.DEVNULL, preexec_fn=_follow))


def _follow() -> None:
    """A cluster whose test was killed ends with it."""
    die_with_parent(signal.SIGKILL)


def _idle(found: Cluster) -> bool:
    try:
        states = found.ask("sinfo", "--noheader", "--Node", "--partition=main", "--format=%T").split()
    except RuntimeError:
        return False
    return states == ["idle"] * len(NODES)


def _wait(there: Callable[[], bool], folder: Path, started: list[subprocess.Popen[bytes]]) -> None:
    """RuntimeError, with what the daemons said."""
    deadline = time.monotonic() + READY_S
    while not there():
        if any(process.poll() is not None for process in started) or time.monotonic() > deadline:
            said = [f"{path.name}: {path.read_text(errors='replace')[-1500:]}" for path in folder.glob("*.out")]
            raise RuntimeError("\n".join(["Slurm did not start", *said]))
        time.sleep(0.05)


def _end(folder: Path, started: list[subprocess.Popen[bytes]]) -> None:
    """Jobs first, then the daemons, the last one first."""
    with _ignored():
        Cluster(folder).ask("scancel", "--full", "--signal=KILL", f"--user={os.geteuid()}")
    for process in reversed(started):
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _ignored() -> Iterator[None]:
    try:
        yield
    except (RuntimeError, subprocess.TimeoutExpired):
        pass


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()
