"""Takes a run off the disk, while nobody writes to it."""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rltui.sources.base import Unreadable

_FULL = {errno.ENOSPC, errno.EDQUOT}
_LEFTOVER = re.compile(r"\..+\.(?P<verb>deleted|import)-[0-9a-f]{8}")


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
    gone = _hidden(path)
    if path.is_symlink():
        raise Unreadable(f"{path} is a link: delete what it leads to")
    try:
        clear_leftovers(path.parent)
        with _nobody_writes(path):
            path.rename(gone)  # at once, for whoever lists the runs
    except OSError as error:
        raise Unreadable(f"{path} cannot be deleted: {error.strerror or error}") from error
    shutil.rmtree(gone, ignore_errors=True)
    try:
        if gone.exists():
            shutil.rmtree(gone)  # again, for the reason
    except FileNotFoundError:  # another has cleared it meanwhile
        pass
    except OSError as error:
        why = f"{error.filename}: {error.strerror or error}"
        rest = f"the rest is in {gone}; the next delete beside it tries again"
        raise Unreadable(f"{path} is deleted only in part ({why}): {rest}") from error


def clear_leftovers(folder: Path) -> None:
    """Remove, as far as they can be, each `.NAME.deleted-*`, which several may do at once, and each `.NAME.import-*`
    whose lock names a process of this host that is gone. An import of another host is judged there alone."""
    for path in folder.iterdir():
        found = _LEFTOVER.fullmatch(path.name)
        if found is None or path.is_symlink():
            continue
        if found["verb"] == "deleted":
            shutil.rmtree(path, ignore_errors=True)
        elif _is_dead(path):
            throw_away(path)


def _is_dead(path: Path) -> bool:
    from trainer.rundir.layout import RunPaths
    from trainer.rundir.lock import holder_of

    try:
        holder = holder_of(RunPaths(path))
    except OSError:  # of another user
        return False
    return holder is not None and holder.alive() is False


def throw_away(path: Path) -> None:
    """Remove a folder as far as it can be. Renamed first: its lock may go before the rest, and nobody judges by it."""
    gone = _hidden(path)
    try:
        path.rename(gone)
    except OSError:  # another has done so
        return
    shutil.rmtree(gone, ignore_errors=True)


def _hidden(path: Path) -> Path:
    """What a folder is called while it goes."""
    return path.with_name(f".{path.name.lstrip('.')[:50]}.deleted-{secrets.token_hex(4)}")


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
