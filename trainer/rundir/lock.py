"""One writer at a time: the `lock` file of a run folder (WIRE 5.9)."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Callable

import msgspec

from trainer.rundir.jsonl import Json, decode_object, encode_line, iso
from trainer.rundir.layout import RunPaths, make_folder
from trainer.rundir.process import ProcessId, host_name

SILENT_S = 60.0
_LOOK_EVERY_S = 2.0
_NO_FLOCK = {errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL}
_NO_LINK = {errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK}


class RunLocked(RuntimeError):
    """Another process writes to this folder, or may do so."""

    def __init__(self, message: str, holder: Json | None = None) -> None:
        super().__init__(message)
        self.holder = holder


class RunLock:
    """Held from `acquire()` to `release()`, or as a context manager.

    A lock whose process is dead, or is of an earlier boot of this host, is replaced by itself. One from
    another host is replaced only with `take_over`, after 60 s (watched here) in which the run's beat did
    not change.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        attempt: int = 1,
        take_over: bool = False,
        identity: ProcessId | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.paths = RunPaths(root)
        self.attempt = attempt
        self._take_over = take_over
        self._identity = identity or ProcessId.current()
        self._sleep = sleep
        self._fd = -1

    def acquire(self) -> RunLock:
        """RunLocked, with pid and host, if it is held."""
        make_folder(self.paths.root, parents=True)
        watched = False
        for _ in range(10):
            if self._create():
                return self
            try:
                old = self.paths.open("lock")
            except FileNotFoundError:
                continue  # released just now
            try:
                watched = self._replace(old, watched)
            finally:
                os.close(old)
        raise RunLocked(f"{self.paths.lock} changes hands all the time; look for other starts of this run")

    def release(self) -> None:
        if self._fd < 0:
            return
        try:
            if _same_file(self._fd, self.paths):
                self.paths.lock.unlink()
        finally:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> RunLock:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def _create(self) -> bool:
        """Put our lock file in place, complete from its first moment on; False if one is there."""
        name = f".lock.tmp-{os.getpid()}"
        (self.paths.root / name).unlink(missing_ok=True)
        fd = self.paths.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        try:
            os.write(fd, encode_line(self._content()))
            os.fsync(fd)
            try_flock(fd)
            os.link(self.paths.root / name, self.paths.lock, follow_symlinks=False)
        except FileExistsError:
            os.close(fd)
            return False
        except OSError as error:
            os.close(fd)
            if error.errno not in _NO_LINK:
                raise
            return self._create_without_link()
        finally:
            (self.paths.root / name).unlink(missing_ok=True)
        self._fd = fd
        return True

    def _create_without_link(self) -> bool:
        try:
            fd = self.paths.open("lock", os.O_RDWR | os.O_CREAT | os.O_EXCL)
        except FileExistsError:
            return False
        try_flock(fd)
        os.write(fd, encode_line(self._content()))
        os.fsync(fd)
        self._fd = fd
        return True

    def _content(self) -> Json:
        identity: Json = msgspec.to_builtins(self._identity)
        return identity | {"attempt": self.attempt, "created_at": iso(time.time())}

    def _replace(self, old: int, watched: bool) -> bool:
        """Remove a stale lock.

        Whoever holds its flock may, so two starts cannot both. RunLocked if it is live.
        """
        holder, identity = _holder(os.pread(old, 1 << 16, 0))
        if not watched:
            watched = self._check_stale(holder, identity)
        if not try_flock(old):
            raise RunLocked(_message(self.paths, holder), holder)
        if _same_file(old, self.paths):
            self.paths.lock.unlink(missing_ok=True)
        return watched

    def _check_stale(self, holder: Json | None, identity: ProcessId | None) -> bool:
        """True if a beat had to be watched for it."""
        if identity is not None and identity.host == host_name():
            if identity.alive():
                raise RunLocked(_message(self.paths, holder), holder)
            return False
        if not self._take_over:
            where = f"on {identity.host}" if identity else "that cannot be named (its lock file is damaged)"
            raise RunLocked(
                f"{self.paths.root} is locked by a process {where}. If that run is over, start with "
                f"--take-over: after {SILENT_S:.0f} s without a sign of life its lock is replaced.",
                holder,
            )
        beat = self._beat()
        for _ in range(round(SILENT_S / _LOOK_EVERY_S)):
            self._sleep(_LOOK_EVERY_S)
            if self._beat() != beat:
                raise RunLocked(_message(self.paths, holder), holder)
        return True

    def _beat(self) -> object:
        try:
            status = decode_object(self.paths.read("status.json"))
        except (OSError, ValueError):
            return None
        return status.get("pid"), status.get("beat")


def holder_of(paths: RunPaths) -> ProcessId | None:
    """Who holds a run's folder by its lock file, dead or alive; None: nobody, or somebody who cannot be named."""
    try:
        return _holder(paths.read("lock"))[1]
    except FileNotFoundError:
        return None


def _holder(data: bytes) -> tuple[Json | None, ProcessId | None]:
    try:
        holder = decode_object(data)
        return holder, msgspec.convert(holder, ProcessId)
    except ValueError:
        return None, None


def _message(paths: RunPaths, holder: Json | None) -> str:
    if holder is None:
        return f"{paths.root} is locked by another start of this run. Wait for it, or stop it."
    return (
        f"{paths.root} is in use by pid {holder.get('pid')} on {holder.get('host')} "
        f"(since {holder.get('created_at')}). Stop that run, or choose another --run-dir."
    )


def _same_file(fd: int, paths: RunPaths) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), os.lstat(paths.lock))
    except FileNotFoundError:
        return False


def try_flock(fd: int) -> bool:
    """False: another process holds it. Where flock does not work the file alone has to do."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NO_FLOCK:
            raise
    return True
