"""Brings a run from another folder among the others: looked at first, then copied whole or not at all."""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rltui.sources.base import TERMINAL, Unreadable
from rltui.sources.deleting import clear_leftovers, throw_away
from rltui.sources.find import job_id_of, runs_in
from rltui.text import clean

if TYPE_CHECKING:
    from trainer.rundir.layout import RunPaths

STAYS = ("lock", "reserve", "weights")  # of a run that goes on where it is; the next attempt makes its own
DEEPEST = 64  # folders in each other
LONGEST_STATUS = 4 << 20  # bytes
_JOB = re.compile(r"rl_[0-9a-f]{16}")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}")

Json = dict[str, object]


@dataclass(frozen=True)
class Imported:
    """`notes`: what was not brought, or is not as it should be, a sentence each."""

    path: Path
    job_id: str
    bytes: int
    notes: tuple[str, ...]


def bring(source: Path, runs_dir: Path, told: Callable[[int, int], None] = lambda done, total: None) -> Imported:
    """Copy the run in `source` into `runs_dir`. A copy of one that went on elsewhere is marked as failed.

    Args:
        told: called with the bytes that are copied, of how many.

    Raises:
        Unreadable: it is none, goes on, holds links, or is there already.
    """
    from trainer.rundir.layout import RunPaths, make_folder
    from trainer.rundir.lock import RunLock

    try:
        paths = RunPaths(source.resolve())
        job_id, name = _identity(paths)
        if runs_dir.resolve().is_relative_to(paths.root):
            raise Unreadable(f"{runs_dir} is in the run itself: give another --runs-dir")
        for there in runs_in(runs_dir) if runs_dir.is_dir() else []:
            if there.name == name or job_id_of(there) == job_id:
                raise Unreadable(f"{there} is that run already")
        beat = _beat(paths)
        folders, files, notes = _listed(paths.root)
        make_folder(runs_dir, parents=True)
        clear_leftovers(runs_dir)
        total, free = sum(about.st_size for _, about in files), shutil.disk_usage(runs_dir).free
        needed = sum(min(about.st_size, about.st_blocks * 512) for _, about in files)  # holes take nothing
        if needed > free:
            raise Unreadable(f"{source} has {needed:,} bytes, and {runs_dir} has room for {free:,}")
        aside = runs_dir / f".{name}.import-{secrets.token_hex(4)}"
        lock = RunLock(aside)  # tells whoever clears leftovers who is at it
        try:
            lock.acquire()
            for folder in folders:
                make_folder(aside / folder)
            done = 0
            for file, _ in files:
                for count in _copy(paths, file, RunPaths(aside)):
                    done += count
                    told(done, total)
            if _beat(paths) != beat:
                raise Unreadable(f"{source} was written to meanwhile: stop that run first, or attach it where it is")
            notes += _looked_at(aside)
            lock.release()
            notes += _ended(aside)
            os.rename(aside, runs_dir / name)
        finally:
            throw_away(aside)
            lock.release()
    except OSError as error:
        raise Unreadable(f"{error.filename or source}: {error.strerror or error}") from error
    return Imported(runs_dir / name, job_id, total, tuple(clean(note, 300) for note in notes))


def _identity(paths: RunPaths) -> tuple[str, str]:
    """(job id, name of its folder). Unreadable: it is no run, or one that goes on here."""
    from trainer.rundir.layout import run_folder_name
    from trainer.rundir.lock import holder_of

    if not paths.root.is_dir():
        raise Unreadable(f"{paths.root} is no run directory: unpack it first, if it is an archive")
    status = _status(paths)
    if status is None or "job_id" not in status:
        raise Unreadable(f"{paths.root} is no run directory: its status.json cannot be read")
    job_id, label = str(status["job_id"]), str(status.get("label"))
    if not _JOB.fullmatch(job_id):
        raise Unreadable(f"{paths.root}: {clean(job_id, 60)!a} in its status.json is no job id")
    if not isinstance(status.get("state"), str):
        raise Unreadable(f"{paths.root}: its status.json is damaged: its state is not a word")
    holder = holder_of(paths)
    if holder is not None and holder.alive():
        raise Unreadable(f"{paths.root} is in use by pid {holder.pid}: stop that run first, or attach it where it is")
    own = paths.root.name
    fits = _NAME.fullmatch(own) and (own.endswith(f"-{job_id}") or "-rl_" not in own)
    return job_id, own if fits else run_folder_name(label, job_id)


def _status(paths: RunPaths) -> Json | None:
    """None: it is none, or too long for one."""
    try:
        data = paths.read("status.json", count=LONGEST_STATUS + 1)
        status = json.loads(data) if len(data) <= LONGEST_STATUS else None
    except (OSError, ValueError, RecursionError):
        return None
    return status if isinstance(status, dict) else None


def _beat(paths: RunPaths) -> object:
    status = _status(paths) or {}
    return status.get("attempt"), status.get("beat")


def _looked_at(folder: Path) -> list[str]:
    """What is damaged in it."""
    from trainer.rundir import RunReader
    from trainer.rundir.checkpoints import list_checkpoints, verify_checkpoint

    notes: list[str] = []
    for checkpoint in list_checkpoints(folder / "checkpoints"):
        notes += [one.replace(f"{folder}{os.sep}", "") for one in verify_checkpoint(checkpoint.path)]
    reader = RunReader(folder)
    reader.lines_after("metrics.jsonl", None)
    reader.events()
    notes += [f"{one.path.name}, byte {one.offset}: a line is damaged, {one.reason}" for one in reader.damaged]
    return notes


def _ended(folder: Path) -> list[str]:
    """A copy goes on nowhere: one that says it does is `failed`, `process_lost`, and can be resumed or deleted."""
    from rltui.server import record
    from trainer.rundir.layout import RunPaths

    status = _status(RunPaths(folder)) or {}
    state, attempt = str(status.get("state")), status.get("attempt")
    if state in TERMINAL:
        return []
    where = f"{status.get('host') or 'a host that it does not name'}"
    message = f"this is a copy of a run that was {state} on {where} (pid {status.get('pid')})"
    hint = "the run itself goes on, or ended, where it was; this copy can go on from its last checkpoint"
    error = {"code": "process_lost", "message": message, "hint": hint}
    number = attempt if isinstance(attempt, int) and attempt > 0 else 1
    record.failed(folder, str(status["job_id"]), str(status.get("label")), number, error)
    return [f"{message}: the copy goes on nowhere, and is marked as failed"]


def _listed(root: Path) -> tuple[list[str], list[tuple[str, os.stat_result]], list[str]]:
    """Folders and files that are brought, relative, and notes. Unreadable: there is a link, or what is neither file
    nor folder."""
    folders: list[str] = []
    files: list[tuple[str, os.stat_result]] = []
    notes: list[str] = []
    for name, about in _walk(root, ""):
        if stat.S_ISLNK(about.st_mode) and name == "checkpoints":
            notes.append(f"checkpoints is a link to {os.readlink(root / name)}: it stays, with what is there")
        elif stat.S_ISDIR(about.st_mode):
            folders.append(name)
        elif stat.S_ISREG(about.st_mode):
            files.append((name, about))
        else:
            what = "a link" if stat.S_ISLNK(about.st_mode) else "neither a file nor a folder"
            raise Unreadable(f"{clean(root / name, 300)} is {what}: a run holds its files itself; take it out first")
    return folders, files, notes


def _walk(folder: Path, inside: str) -> Iterator[tuple[str, os.stat_result]]:
    if inside.count(os.sep) > DEEPEST:
        raise Unreadable(f"{clean(inside, 100)}… has over {DEEPEST} folders in each other, which no run has")
    with os.scandir(folder) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    for entry in found:
        name = f"{inside}{entry.name}"
        if name in STAYS or entry.name.startswith("."):  # what was being written when somebody died
            continue
        about = entry.stat(follow_symlinks=False)
        yield name, about
        if stat.S_ISDIR(about.st_mode):
            yield from _walk(Path(entry.path), f"{name}{os.sep}")


def _copy(paths: RunPaths, name: str, to: RunPaths) -> Iterator[int]:
    """With its times, and without filling its holes; gives the bytes of each piece that is copied."""
    fd = paths.open(name)
    with open(fd, "rb"), open(to.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as write:
        about = os.fstat(fd)
        for start, end in _extents(fd, about.st_size):
            write.seek(start)
            while start < end and (part := os.pread(fd, min(end - start, 1 << 20), start)):
                start += write.write(part)
                yield len(part)
        write.truncate(about.st_size)
        os.utime(write.fileno(), ns=(about.st_atime_ns, about.st_mtime_ns))


def _extents(fd: int, size: int) -> Iterator[tuple[int, int]]:
    """[start, end) of what is written in a file of `size` bytes."""
    end = 0
    while end < size:
        try:
            start = os.lseek(fd, end, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # nothing but a hole up to the end
                return
            raise
        end = os.lseek(fd, start, os.SEEK_HOLE)
        yield start, end
