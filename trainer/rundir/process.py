"""Which process is meant, beyond doubt: a pid counts only with its start time, host and boot id."""

from __future__ import annotations

import os
import signal
import socket
from functools import cache
from pathlib import Path
from typing import Any

import msgspec


class ProcessId(msgspec.Struct, frozen=True, kw_only=True):
    """Identity of one process over reboots and reused pids.

    `start_time` is in clock ticks after boot (field 22 of /proc/PID/stat); where there is no /proc, in
    hundredths of a second of the epoch, which serves as well to tell two processes of one pid apart.
    """

    pid: int
    start_time: int
    host: str
    boot_id: str

    def same_machine(self) -> bool:
        """This machine, and not rebooted since."""
        return self.host == host_name() and self.boot_id == boot_id()

    def alive(self) -> bool | None:
        """True or False on the machine where it can be looked up, None for one elsewhere.

        A process of an earlier boot of this host is gone: False.
        """
        if self.host != host_name():
            return None
        if self.boot_id != boot_id():
            return False
        return start_time_of(self.pid) == self.start_time

    def signal(self, number: signal.Signals) -> bool:
        """Send a signal if, and only if, this very process runs here. False: it does not."""
        if not self.alive():
            return False
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            return False
        return True

    @classmethod
    def current(cls) -> ProcessId:
        return cls.of(os.getpid())

    @classmethod
    def of(cls, pid: int) -> ProcessId:
        """The process that has this pid now. ProcessLookupError: none has."""
        start_time = start_time_of(pid)
        if start_time is None:
            raise ProcessLookupError(f"no process with pid {pid}")
        return cls(pid=pid, start_time=start_time, host=host_name(), boot_id=boot_id())


def process_fields(identity: ProcessId) -> dict[str, Any]:
    """`identity` and its process group, as status.json has them."""
    try:
        pgid = os.getpgid(identity.pid)
    except (ProcessLookupError, PermissionError):
        pgid = identity.pid
    fields: dict[str, Any] = msgspec.to_builtins(identity)
    return fields | {"pgid": pgid}


def start_time_of(pid: int) -> int | None:
    """Start time of the process that has this pid on this machine.

    None if there is none, or only its zombie.
    """
    if pid <= 0:
        return None
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None if Path("/proc/self/stat").exists() else _start_time_without_proc(pid)
    # The command name is in parentheses and may hold spaces and parentheses itself: count from the last one.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])


def _start_time_without_proc(pid: int) -> int | None:
    import psutil  # Linux does without it

    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        created: float = process.create_time()  # in seconds
        return round(created * 100)
    except psutil.Error:
        return None


def host_name() -> str:
    return socket.gethostname()


@cache
def boot_id() -> str:
    """The kernel's id of this boot; elsewhere than on Linux the boot time stands for it."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        import psutil

        return f"boot-{round(psutil.boot_time())}"
