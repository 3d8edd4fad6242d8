"""The machine under a run: its processes, found by a mark in their environment, and mounts of our own namespace."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep

MARK = "RLTUI_FAULTS_RUN"
OWN_MOUNTS = "RLTUI_FAULTS_MOUNTS"  # set where mounts are ours alone
DISK = "256m"
SHM = Path("/dev/shm")
WORDS = {
    "coordinator": ("trainer", "run"),
    "learner": ("trainer.learner", "--role", "learner"),
    "inference": ("trainer.inference.local_server",),
    "taskapp": ("trainer.taskapp",),
    "reference": ("trainer.learner", "--role", "reference"),
}
VLLM = {"inference": ("vllm.entrypoints.openai.api_server",), "core": ("VLLM::EngineCore",)}


def with_own_mounts(module: str, arguments: list[str]) -> None:
    """Goes on as `module` in a mount namespace of its own, where that is allowed: nothing stays mounted after it."""
    unshare = shutil.which("unshare")
    if OWN_MOUNTS in os.environ or unshare is None:
        return
    words = [unshare, "--mount", "--propagation", "private"]
    tried = subprocess.run([*words, "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True)
    if tried.returncode == 0:
        os.environ[OWN_MOUNTS] = "1"
        os.execv(unshare, [*words, sys.executable, "-m", module, *arguments])


def can_mount() -> bool:
    return OWN_MOUNTS in os.environ


def mount_disk(folder: Path, size: str = DISK) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(folder)], check=True)


def unmount(folder: Path) -> None:
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Files that are open stay writable, as after `chmod`; no other can be made or opened for writing."""
    subprocess.run(["mount", "--bind", str(folder), str(folder)], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", str(folder)], check=True)
        yield
    finally:
        unmount(folder)


@contextmanager
def filled(folder: Path) -> Iterator[None]:
    """No block is free on the file system of `folder`."""
    ballast = folder / ".ballast"
    try:
        with suppress(OSError), ballast.open("wb", buffering=0) as file:
            for size in (1 << 20, 1 << 12, 1):
                with suppress(OSError):
                    while file.write(b"\xff" * size):
                        pass
        yield
    finally:
        ballast.unlink(missing_ok=True)


def marked(mark: str, session: int = 0) -> dict[int, list[str]]:
    """Command lines, by pid, of the living processes that carry the mark, or are of that session: one that gives
    itself a title has no environment left to read. Session 0 is the machine's own, and stands for none."""
    wanted, found = f"{MARK}={mark}".encode(), {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with suppress(OSError):
            state, _, _, session_of = _stat(int(entry.name))[:4]
            ours = 0 < session == int(session_of) or wanted in (entry / "environ").read_bytes().split(b"\0")
            if ours and state not in "ZX":
                found[int(entry.name)] = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
    return found


def _stat(pid: int) -> list[str]:
    """State, parent, group, session and so on (proc(5)). Raises OSError."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def runs(pid: int) -> bool:
    """Whether there is such a process, which is no zombie."""
    try:
        return _stat(pid)[0] not in "ZX"
    except OSError:
        return False


def has_words(words: Sequence[str], wanted: Sequence[str]) -> bool:
    return any(list(words[at : at + len(wanted)]) == list(wanted) for at in range(len(words)))


def until(ready: Callable[[], object], limit_s: float, every_s: float = 0.02) -> bool:
    """Whether it became so in time."""
    deadline = monotonic() + limit_s
    while not ready():
        if monotonic() > deadline:
            return False
        sleep(every_s)
    return True
