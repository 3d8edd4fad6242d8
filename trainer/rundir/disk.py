"""Writing that survives a full disk and a crash: whole appends, atomic replacement, room in reserve."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

from trainer.rundir.layout import RunPaths

RESERVE_BYTES = 1 << 20
SPARE_BYTES = 3 << 20  # must be free besides before a run goes on, or it would stop again at once
_FULL = {errno.ENOSPC, errno.EDQUOT}


class DiskFull(OSError):
    """No room for a record; nothing of it is left in the file. The run pauses until `RunWriter.recover()`."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(errno.ENOSPC, "the disk is full", str(path))


class Disk:
    """The system calls that can fail for want of room, in one place: tests put a failing disk here."""

    def write(self, fd: int, data: bytes) -> int:
        return os.write(fd, data)

    def truncate(self, fd: int, size: int) -> None:
        os.ftruncate(fd, size)

    def fsync(self, fd: int) -> None:
        os.fsync(fd)


def is_full(error: OSError) -> bool:
    return error.errno in _FULL


class AppendFile:
    """One file that only grows, by whole records. There is a single writer of it (see lock.py)."""

    def __init__(self, paths: RunPaths, name: str, disk: Disk) -> None:
        self.path = paths.root / name
        self._disk = disk
        self._fd = paths.open(name, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        self.size = os.fstat(self._fd).st_size
        self._dirty = False
        self._torn = False

    def append(self, data: bytes) -> int:
        """Write all of `data` in one call and give the byte where it starts.

        DiskFull: nothing of it stays.
        """
        if self._torn:
            self.cut(self.size)
        start = self.size
        self._dirty = True
        try:
            written = self._disk.write(self._fd, data)
            while written < len(data):  # a nearly full disk takes a part first and refuses the rest
                written += self._disk.write(self._fd, data[written:])
        except OSError as error:
            self._torn = True
            self.forget(start)
            if is_full(error):
                raise DiskFull(self.path) from error
            raise
        self.size = start + len(data)
        return start

    def cut(self, size: int) -> None:
        """Drop everything from byte `size` on."""
        self._disk.truncate(self._fd, size)
        self.size = size
        self._torn = False
        self._dirty = True

    def forget(self, size: int) -> None:
        """As `cut`, where a disk that fails now makes it wait for the next append."""
        if size >= self.size and not self._torn:
            return
        self.size = size
        self._torn = True
        try:
            self.cut(size)
        except OSError:
            pass  # until then readers see bytes that nothing refers to, or a line without its end

    def cut_torn_line(self) -> None:
        """Drop what follows the last LF: a line that a crash left half written."""
        end = self.size
        while end > 0:
            start = max(0, end - (1 << 16))
            at = os.pread(self._fd, end - start, start).rfind(b"\n")
            if at >= 0:
                end = start + at + 1
                break
            end = start
        if end != self.size:
            self.cut(end)

    def cut_to_multiple(self, line_bytes: int) -> None:
        if self.size % line_bytes:
            self.cut(self.size - self.size % line_bytes)

    def read(self, start: int, end: int) -> bytes:
        return os.pread(self._fd, end - start, start)

    def sync(self) -> None:
        if self._dirty:
            try:
                self._disk.fsync(self._fd)
            except OSError as error:
                if is_full(error):
                    raise DiskFull(self.path) from error
                raise
            self._dirty = False

    @property
    def closed(self) -> bool:
        return self._fd < 0

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def replace_file(paths: RunPaths, name: str, data: bytes, disk: Disk | None = None) -> None:
    """Put `data` in the place of a file: a reader sees the old or the new one, whole, even after a crash."""
    disk = disk or Disk()
    target = paths.root / name
    aside = target.with_name(f".{target.name}.tmp-{os.getpid()}")
    aside.unlink(missing_ok=True)
    fd = paths.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        view = data
        while view:
            view = view[disk.write(fd, view) :]
        disk.fsync(fd)
        os.close(fd)
        fd = -1
        os.replace(aside, target)
    except OSError as error:
        aside.unlink(missing_ok=True)
        if is_full(error):
            raise DiskFull(target) from error
        raise
    finally:
        if fd >= 0:
            os.close(fd)
    sync_folder(target.parent)


def remove_half_written(folder: Path) -> None:
    """What a killed process was about to put in a file's place here. A lock's is of a start that may be going on."""
    for aside in folder.glob(".*.tmp-*"):
        if not aside.name.startswith(".lock."):
            aside.unlink(missing_ok=True)


def sync_folder(path: Path) -> None:
    """Make renames in a folder last. File systems that cannot sync a folder are taken as they are."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF):
            raise
    finally:
        os.close(fd)


class Reserve:
    """Real blocks that are given up on a full disk, so that status and events can still be written."""

    def __init__(self, paths: RunPaths, disk: Disk) -> None:
        self._paths = paths
        self._disk = disk

    def take(self, spare: int = 0) -> bool:
        """Make sure of the room, and of `spare` bytes besides. False: there is none; nothing is kept."""
        try:
            # Random bytes: a file system that compresses or keeps holes would give zeros no blocks.
            # Written, not asked for: a quota does not show in the free space.
            replace_file(self._paths, "reserve", os.urandom(RESERVE_BYTES + spare), self._disk)
        except DiskFull:
            return False
        os.truncate(self._paths.reserve, RESERVE_BYTES)
        return True

    def give_up(self) -> None:
        self._paths.reserve.unlink(missing_ok=True)


def retry_with_reserve(write: Callable[[], object], give_up: Callable[[], None]) -> None:
    """Run `write`; on a full disk give up the reserve and run it once more."""
    try:
        write()
    except DiskFull:
        give_up()
        write()
