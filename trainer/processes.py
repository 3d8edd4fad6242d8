"""Child processes of the coordinator: started so that none outlives it, and ended so that none stays behind.

The coordinator leads a process group (its launcher calls setsid). Children stay in that group, ask the kernel for
SIGKILL when the coordinator dies, and ignore the terminal's Ctrl-C: stopping is the coordinator's decision. A child
that has children of its own leads a group instead, so that all of them can be ended, and asks for SIGTERM, to end them
first. Were it stopped then, the kernel itself wakes it: at that moment its group is orphaned (setpgid(2)).
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from ctypes.util import find_library
from functools import partial
from pathlib import Path

import psutil

from trainer.batch import hold_off_term, in_batch_job
from trainer.placing.base import Placed
from trainer.rundir.process import start_time_of

PR_SET_PDEATHSIG = 1
TERM_GRACE_S = 5.0
GROUP_GRACE_S = 2.0
KILLED_S = 10.0  # that a machine may take to end what it was told to kill, and we to hear of it
TAIL_LINES = 15
MAX_SOCKET_HOME = 60  # bytes: the path of a Unix socket below it must stay under 104 (macOS) or 108 (Linux)
_SHORT_HOME = "/tmp"
_SOCKET_FOLDER = re.compile(r"rltui-(\d+)-(\d+)-\w+")  # pid and start time of who made it


def how_ended(code: int) -> str:
    """The exit status of a process in words; below 0 it is a signal."""
    return f"exit {code}" if code >= 0 else f"killed by signal {-code}"


def die_with_parent(number: signal.Signals = signal.SIGKILL, parent: int | None = None) -> None:
    """Asks Linux to send a signal to this process when the thread that started it ends. Elsewhere does nothing.

    No other signal than SIGKILL ends a process that is stopped. `parent`: its process id. One that ended before we
    asked sends nothing any more, so this process ends itself then.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, number)
        if parent is not None and os.getppid() != parent:
            os._exit(1)


def _before_exec(of_batch_job: bool, own_group: bool, parent: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if of_batch_job:
        hold_off_term()
    die_with_parent(signal.SIGTERM if own_group and not of_batch_job else signal.SIGKILL, parent)


def torch_environment(threads: int) -> dict[str, str]:
    """Environment of a child that computes with torch on the CPU.

    Learner and engine share the same cores. In the synchronous loop they alternate, so each takes all of them, and an
    idle OpenMP thread must sleep: with the default active wait it would spin for 200 ms in the other's time. A spin of
    some microseconds stays, for the thousands of small operations of a decode step that follow each other.
    """
    allocator = find_library("tcmalloc_minimal")  # where the machine has it: a fifth faster than glibc's here
    preload = " ".join(filter(None, [os.environ.get("LD_PRELOAD"), allocator]))
    return {
        **({"LD_PRELOAD": preload} if preload else {}),
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
        "OMP_WAIT_POLICY": "PASSIVE",
        "GOMP_SPINCOUNT": "5000",
        "KMP_BLOCKTIME": "0",
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_DISABLE_TELEMETRY": "1",
    }


def socket_folder(longest_name: int = 1) -> str:
    """A new folder that only this user can enter, for Unix sockets of short names. Raises OSError."""
    home = tempfile.gettempdir()
    if len(os.fsencode(home)) + longest_name - 1 > MAX_SOCKET_HOME:
        home = _SHORT_HOME
    return tempfile.mkdtemp(prefix=own_prefix(), dir=home)


def own_prefix() -> str:
    """Of this process's folders for temporary files: what `remove_stale_socket_folders` knows them by. Letters, digits
    and _ may follow."""
    return f"rltui-{os.getpid()}-{start_time_of(os.getpid())}-"


def remove_stale_socket_folders() -> None:
    """Those of coordinators that were killed before they could do it: of this user, whose maker lives no more."""
    for home in {tempfile.gettempdir(), _SHORT_HOME}:
        for folder in Path(home).glob("rltui-*"):
            made = _SOCKET_FOLDER.fullmatch(folder.name)
            with contextlib.suppress(OSError):
                if made and folder.lstat().st_uid == os.getuid() and start_time_of(int(made[1])) != int(made[2]):
                    shutil.rmtree(folder, ignore_errors=True)


class Child(Placed):
    """One running child. Its output goes to `sink` line by line; the last lines are kept as evidence of a crash."""

    def __init__(
        self,
        role: str,
        process: asyncio.subprocess.Process,
        sink: Callable[[bytes], object],
        own_group: bool = False,
    ) -> None:
        self.role, self._process, self._sink = role, process, sink
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)
        self._pumps = [asyncio.create_task(self._pump(process.stderr))]
        self._sweep = asyncio.create_task(self._end_orphans()) if own_group else None
        self.ended: asyncio.Task[int] = asyncio.create_task(process.wait())

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def tail(self) -> str:
        return "\n".join(self._tail)[-2000:]

    async def first_line(self, timeout_s: float) -> bytes:
        """The first line of stdout; what follows goes to the log. Empty if the child ended; TimeoutError."""
        assert self._process.stdout is not None
        line = await asyncio.wait_for(self._process.stdout.readline(), timeout_s)
        self.pump_stdout()
        return line

    def pump_stdout(self) -> None:
        self._pumps.append(asyncio.create_task(self._pump(self._process.stdout)))

    async def _pump(self, stream: asyncio.StreamReader | None) -> None:
        while stream is not None:
            try:
                line = await stream.readline()
            except ValueError:  # a line longer than the stream's limit: it was dropped from the buffer
                line = b"[a line over 64 KiB was left out]\n"
            if not line:
                return
            self._tail.append(line.decode(errors="replace").rstrip())
            # A full disk loses lines of the log; reading goes on, or the child would block on its next one.
            with contextlib.suppress(OSError):
                self._sink(line)

    async def terminate(self, grace_s: float = TERM_GRACE_S) -> None:
        """SIGTERM, then SIGKILL after the grace. Returns when the process is gone, and the group that it leads;
        repeatable. In a job of a batch system it never hears a SIGTERM, and gets SIGKILL."""
        asked = [(self._process.terminate, grace_s), (self._process.kill, KILLED_S)]
        for send, limit_s in asked[1:] if in_batch_job() else asked:
            if self.ended.done():
                break
            try:
                send()
            except ProcessLookupError:
                break
            await asyncio.wait([self.ended], timeout=limit_s)
        if self._sweep is not None:
            await asyncio.wait([self._sweep])
            await asyncio.wait([self.ended], timeout=KILLED_S)
        await asyncio.wait(self._pumps, timeout=1.0)
        for pump in self._pumps:
            pump.cancel()

    async def _end_orphans(self) -> None:
        """Once the leader is gone, the rest of its group follows. asyncio calls a process ended when its pipes are
        closed, and those its children hold open."""
        while self._process.returncode is None:  # noqa: ASYNC110 - the event for it is the one that waits for pipes
            await asyncio.sleep(0.1)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGTERM)
            await self._empty_group()
            # Python's tracker of shared memory ends by itself, once it has removed what a killed process left.
            for process in _group_members(self.pid):
                with contextlib.suppress(psutil.Error):
                    if not any("resource_tracker" in word for word in process.cmdline()):
                        process.kill()
            await self._empty_group()
            os.killpg(self.pid, signal.SIGKILL)

    async def _empty_group(self) -> None:
        """Waits a moment for the group to end. ProcessLookupError when it has."""
        deadline = time.monotonic() + GROUP_GRACE_S
        while time.monotonic() < deadline:
            os.killpg(self.pid, 0)
            await asyncio.sleep(0.05)


def _group_members(group: int) -> list[psutil.Process]:
    members = []
    for process in psutil.process_iter():
        with contextlib.suppress(ProcessLookupError, PermissionError, psutil.Error):
            if os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE:
                members.append(process)
    return members


async def spawn(
    role: str,
    argv: Sequence[str],
    *,
    sink: Callable[[bytes], object],
    env: Mapping[str, str] | None = None,
    keep_stdout: bool = False,
    own_group: bool = False,
) -> Child:
    """Starts `argv`; with `keep_stdout` the caller reads stdout through `first_line`. `own_group` is for a process
    with children of its own: they are ended with it."""
    process = await asyncio.create_subprocess_exec(
        *argv,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={"PYTHONUNBUFFERED": "1", **os.environ, **(env or {})},  # a line is in the log when it is printed
        preexec_fn=partial(_before_exec, in_batch_job(), own_group, os.getpid()),
        process_group=0 if own_group else None,
    )
    child = Child(role, process, sink, own_group)
    if not keep_stdout:
        child.pump_stdout()
    return child
