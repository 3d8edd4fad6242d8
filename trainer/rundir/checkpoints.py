"""Checkpoint folders: built aside, renamed whole, and there only once `STABLE` stands in them (WIRE 5.9)."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from trainer.rundir.disk import DiskFull, is_full, sync_folder
from trainer.rundir.jsonl import Json, decode_object, encode, iso
from trainer.rundir.layout import FILE_MODE, FOLDER_MODE, SCHEMA, make_folder, read_whole
from trainer.rundir.resume import Resumed, counts

MANIFEST = "manifest.json"
STABLE = "STABLE"
OPTIMIZER = "optimizer"
_NAME = re.compile(r"step_(\d+)\Z")
_ASIDE = re.compile(r"\.step_\d+\.old\Z")


class Checkpoint(msgspec.Struct, kw_only=True):
    """A finished checkpoint; `manifest` as it was written."""

    path: Path
    step: int
    iteration: int
    attempt: int
    created_at: str
    bytes: int
    reward: float | None  # of evaluation, else of training
    eval_reward: float | None
    is_best: bool  # of one alone, when it was written; of several, whether best.json names it
    asked: bool = False  # by a person: it stays
    resumable: bool  # its optimizer state is there
    manifest: Json


def checkpoint_name(step: int) -> str:
    return f"step_{step}"


def begin_checkpoint(folder: Path, step: int) -> Path:
    """An empty `.step_N.tmp` to build in; leftovers of a crash are removed."""
    make_folder(folder, parents=True)
    aside = folder / f".{checkpoint_name(step)}.tmp"
    if aside.exists():
        shutil.rmtree(aside)
    make_folder(aside)
    return aside


def finish_checkpoint(tmp_dir: Path, final_dir: Path, manifest: Mapping[str, Any]) -> Checkpoint:
    """Turn a built folder into a checkpoint: sums, manifest, fsync, rename, STABLE last.

    `manifest` gives job_id, step, iteration, attempt, trainer_mode, base_model, world_size, reward {train,
    eval}, is_best, asked; schema, created_at, resumable and files are filled in. A checkpoint of that name is
    replaced once the new one is complete. DiskFull: nothing but `tmp_dir` is changed. ValueError: it holds
    a link.
    """
    try:
        return _finish(Path(tmp_dir), Path(final_dir), manifest)
    except OSError as error:
        if is_full(error) and not isinstance(error, DiskFull):
            raise DiskFull(final_dir) from error
        raise


def _finish(tmp_dir: Path, final_dir: Path, manifest: Mapping[str, Any]) -> Checkpoint:
    for link in tmp_dir.rglob("*"):
        if link.is_symlink():
            raise ValueError(f"{link} is a link: a checkpoint holds its files itself")
    optimizer = tmp_dir / OPTIMIZER
    if optimizer.is_dir():
        _write(optimizer / MANIFEST, encode({"schema": SCHEMA, "files": _sums(optimizer)}))
    document = {
        "schema": SCHEMA,
        "created_at": iso(time.time()),
        **manifest,
        "resumable": optimizer.is_dir(),
        "files": _sums(tmp_dir, leave_out=OPTIMIZER),
    }
    encoded = encode(document)
    _write(tmp_dir / MANIFEST, encoded)
    _settle(tmp_dir)

    old = final_dir.with_name(f".{final_dir.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if final_dir.exists():
        os.rename(final_dir, old)
    os.rename(tmp_dir, final_dir)
    sync_folder(final_dir.parent)
    _replace(final_dir / STABLE, (hashlib.sha256(encoded).hexdigest() + "\n").encode())
    shutil.rmtree(old, ignore_errors=True)
    checkpoint = read_checkpoint(final_dir)
    assert checkpoint is not None
    return checkpoint


def read_checkpoint(path: Path) -> Checkpoint | None:
    """The checkpoint in a folder; None without STABLE, or with one that is not of this manifest."""
    try:
        encoded = read_whole(path / MANIFEST)
        stable = read_whole(path / STABLE).decode().strip()
        manifest = decode_object(encoded)
        if stable != hashlib.sha256(encoded).hexdigest():
            return None
        reward = manifest.get("reward") or {}
        optimizer = path / OPTIMIZER / MANIFEST
        return Checkpoint(
            path=path,
            step=int(manifest["step"]),
            iteration=int(manifest["iteration"]),
            attempt=int(manifest.get("attempt", 1)),
            created_at=str(manifest.get("created_at", "")),
            bytes=sum(int(entry["bytes"]) for entry in manifest["files"]),
            reward=reward.get("train") if reward.get("eval") is None else reward["eval"],
            eval_reward=reward.get("eval"),
            is_best=bool(manifest.get("is_best")),
            asked=bool(manifest.get("asked")),
            resumable=bool(manifest.get("resumable")) and optimizer.is_file(),
            manifest=manifest,
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def list_checkpoints(folder: Path) -> list[Checkpoint]:
    """Finished checkpoints by step. Sums of their files are not checked here: see `verify_checkpoint`.

    One that was put aside to be replaced counts until the new one is finished: a crash may have come between.
    """
    try:
        names = [entry.name for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]
    except (FileNotFoundError, NotADirectoryError):
        return []
    found = [c for name in names if _NAME.match(name) and (c := read_checkpoint(folder / name)) is not None]
    steps = {checkpoint.step for checkpoint in found}
    aside = [c for name in names if _ASIDE.match(name) and (c := read_checkpoint(folder / name)) is not None]
    found += [checkpoint for checkpoint in aside if checkpoint.step not in steps]
    best = _pointed(folder / "best.json")
    for checkpoint in found:
        checkpoint.is_best = checkpoint.path.name == best
    return sorted(found, key=lambda checkpoint: checkpoint.step)


def counting(checkpoints: Iterable[Checkpoint], resumes: Sequence[Resumed]) -> list[Checkpoint]:
    """Those that no later attempt left behind when it went on from an earlier step."""
    return [c for c in checkpoints if counts({"attempt": c.attempt, "step": c.step}, resumes)]


def verify_checkpoint(path: Path, *, optimizer: bool = True) -> list[str]:
    """What is wrong with the files of a checkpoint, a sentence each: all that a resume needs, or (without `optimizer`)
    the weights alone.

    [] if nothing is.
    """
    checkpoint = read_checkpoint(path)
    if checkpoint is None:
        return [f"{path} is not a finished checkpoint"]
    problems = _wrong_files(path, checkpoint.manifest.get("files"))
    if optimizer and checkpoint.resumable:
        manifest = path / OPTIMIZER / MANIFEST
        try:
            problems += _wrong_files(path / OPTIMIZER, decode_object(read_whole(manifest)).get("files"))
        except (OSError, ValueError) as error:
            problems.append(f"{manifest} cannot be read: {error}")
    return problems


def newest_resumable(folder: Path) -> tuple[Checkpoint | None, list[str]]:
    """The newest checkpoint with optimizer state and right sums, and what was wrong with newer ones."""
    problems: list[str] = []
    for checkpoint in reversed(list_checkpoints(folder)):
        if not checkpoint.resumable:
            continue
        wrong = verify_checkpoint(checkpoint.path)
        if not wrong:
            return checkpoint, problems
        problems += wrong
    return None, problems


def point(folder: Path, name: str, checkpoint: Checkpoint) -> None:
    """Write `latest.json` or `best.json` (`name` without its ending), replacing the old one."""
    document = {"step": checkpoint.step, "reward": checkpoint.reward, "path": checkpoint.path.name}
    _replace(folder / f"{name}.json", encode(document) + b"\n")


def prune(folder: Path, keep_last: int, keep_best: int, resumes: Sequence[Resumed] = ()) -> list[Path]:
    """Remove older checkpoints, and optimizer state of all but the newest resumable; gives what was removed.

    Kept: the `keep_last` newest and, beside them, those that somebody asked for; the `keep_best` with the highest
    evaluation reward, or training reward where none was evaluated, and what best.json names. Those that a resume left
    behind go first.
    """
    found = list_checkpoints(folder)
    checkpoints = counting(found, resumes)
    evaluated = [c for c in checkpoints if c.eval_reward is not None]
    scored = evaluated or [c for c in checkpoints if c.reward is not None]
    best = sorted(scored, key=lambda c: (c.reward, -c.step), reverse=True)[:keep_best]
    asked, own = ([c for c in checkpoints if c.asked is by_hand] for by_hand in (True, False))
    kept = {c.path.name for c in [*own[-max(1, keep_last) :], *asked, *best]}
    if keep_best:
        kept.add(_pointed(folder / "best.json"))
    resumable = [c for c in checkpoints if c.resumable]
    removed = []
    for checkpoint in found:
        if checkpoint.path.name not in kept:
            (checkpoint.path / STABLE).unlink()  # first: a half-removed folder is no checkpoint
            shutil.rmtree(checkpoint.path)
            removed.append(checkpoint.path)
        elif checkpoint.resumable and checkpoint is not resumable[-1]:
            (checkpoint.path / OPTIMIZER / MANIFEST).unlink()
            shutil.rmtree(checkpoint.path / OPTIMIZER)
            removed.append(checkpoint.path / OPTIMIZER)
    return removed


def _pointed(path: Path) -> str:
    try:
        return str(decode_object(read_whole(path)).get("path"))
    except (OSError, ValueError):
        return ""


def _sums(folder: Path, leave_out: str = "") -> list[Json]:
    files = []
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder)
        if path.is_file() and relative.parts[0] != leave_out and relative.as_posix() not in (MANIFEST, STABLE):
            size, digest = path.stat().st_size, _sha256(path)
            files.append({"path": relative.as_posix(), "bytes": size, "sha256": digest})
    return files


def _wrong_files(folder: Path, files: Any) -> list[str]:
    if not isinstance(files, list) or not all(isinstance(entry, dict) for entry in files):
        return [f"{folder / MANIFEST} names no files"]
    problems = []
    for entry in files:
        relative = PurePosixPath(str(entry.get("path")))
        path = folder / relative
        if relative.is_absolute() or ".." in relative.parts or path.is_symlink():
            problems.append(f"{path} points out of its checkpoint")
        elif not path.is_file():
            problems.append(f"{path} is missing")
        elif path.stat().st_size != entry.get("bytes") or _sha256(path) != entry.get("sha256"):
            problems.append(f"{path} is damaged: its checksum is not the one of the manifest")
    return problems


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _write(path: Path, data: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE)
    with os.fdopen(fd, "wb") as file:
        os.fchmod(fd, FILE_MODE)
        file.write(data)
        file.flush()
        os.fsync(fd)


def _replace(path: Path, data: bytes) -> None:
    """A reader sees the old file or the new one, whole, even after a crash."""
    aside = path.with_name(f".{path.name}.tmp-{os.getpid()}")
    _write(aside, data)
    os.replace(aside, path)
    sync_folder(path.parent)


def _settle(folder: Path) -> None:
    """Modes as everywhere in a run, and everything on the disk, from the leaves up."""
    for parent, _, names in os.walk(folder, topdown=False):
        for name in names:
            path = Path(parent) / name
            path.chmod(FILE_MODE)
            fd = os.open(path, os.O_RDONLY)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)
        os.chmod(parent, FOLDER_MODE)
        sync_folder(Path(parent))
