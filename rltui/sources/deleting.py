"""Takes a run off the disk, while nobody writes to it."""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rltui.sources.base import Unreadable

_FULL = {errno.ENOSPC, errno.EDQUOT}


def bytes_of(path: str) -> int:
    """Bytes that a run takes, links not followed. Slow for a large run: not on the thread that draws."""
    total = 0
    for parent, _, files in os.walk(path):
        for file in files:
            try:
                total += os.lstat(os.path.join(parent, file)).st_size
            except OSError:
                continue
    return total


def delete(path: Path) -> None:
    """The folder and all below it; what links lead to stays. What earlier deletes left beside it goes as well.

    Unreadable: somebody writes to it, it cannot go, or a part of it is left, whose name is said.
    """
    gone = path.with_name(f".{path.name}.deleted-{os.getpid()}")
    if path.is_symlink():
        raise Unreadable(f"{path} is a link: delete what it leads to")
    try:
        clear_leftovers(path.parent, "deleted")
        with _nobody_writes(path):
            path.rename(gone)  # at once, for whoever lists the runs
    except OSError as error:
        raise Unreadable(f"{path} cannot be deleted: {error.strerror or error}") from error
    try:
        shutil.rmtree(gone)
    except OSError as error:
        why = f"{error.filename}: {error.strerror or error}"
        rest = f"the rest is in {gone}; the next delete beside it tries again"
        raise Unreadable(f"{path} is deleted only in part ({why}): {rest}") from error


def clear_leftovers(folder: Path, verb: str) -> None:
    """Remove each `.NAME.VERB-PID` of a process that is gone, or of this one, as far as it can be."""
    for path in folder.iterdir():
        found = re.fullmatch(rf"\..+\.{verb}-(\d{{1,9}})", path.name)
        if found and not path.is_symlink() and not _works(int(found[1])):
            shutil.rmtree(path, ignore_errors=True)


def _works(pid: int) -> bool:
    """Whether another process of that number may still be at it."""
    if pid == os.getpid():
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


@contextmanager
def _nobody_writes(path: Path) -> Iterator[None]:
    """Hold the run's lock, so that no resume begins. A full disk, which is to be freed, has no room for one: then it is
    enough that nobody holds it, as nobody else can take it either."""
    from trainer.rundir import RunLock, RunLocked
    from trainer.rundir.layout import RunPaths
    from trainer.rundir.lock import holder_of
    from trainer.rundir.process import host_name

    lock = RunLock(path)
    try:
        try:
            lock.acquire()
        except OSError as error:
            if error.errno not in _FULL:
                raise
            holder = holder_of(RunPaths(path))
            if lock.paths.lock.exists() and (holder is None or holder.host != host_name() or holder.alive()):
                raise Unreadable(f"{path} is locked; if nobody writes to it, remove {lock.paths.lock}") from error
        yield
    except RunLocked as error:
        host = (error.holder or {}).get("host")
        if host == host_name():
            raise Unreadable(str(error)) from error
        where = f"a process on {host}" if host else "a process that cannot be named"
        how = f"if that run is over, remove {lock.paths.lock}, then delete it"
        raise Unreadable(f"{path} is locked by {where}: {how}") from error
    finally:
        lock.release()
