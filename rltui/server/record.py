"""What the server itself writes into a run's folder: its beginning, and its end where no coordinator can."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from rltui.launch.slurm_script import SCRIPT
from rltui.model.shape import STATUS, fitting
from trainer.rundir import ProcessId, RunLock, RunPaths, RunReader, RunWriter
from trainer.rundir.attempts import leaves
from trainer.rundir.disk import replace_file
from trainer.rundir.jsonl import Json, decode_object, encode

HINT = "it can be resumed from its last checkpoint, if it has one"


def create(
    folder: Path,
    *,
    job_id: str,
    label: str,
    given: Mapping[str, Any],
    config: str,
    resolved: Json,
    epochs: int,
    checkpoint_dir: str | None,
) -> None:
    """A run that waits: its config as given and as TOML, and its record."""
    with RunWriter(folder, job_id=job_id, label=label, checkpoint_dir=checkpoint_dir) as writer:
        replace_file(writer.paths, "config.json", json.dumps(given, indent=2, ensure_ascii=False).encode() + b"\n")
        replace_file(writer.paths, "config.toml", config.encode())
        waits(writer, resolved, epochs)


def waits(writer: RunWriter, resolved: Json, epochs: int) -> None:
    """The record of a run that waits: resolved.json, event 1, and a status, which comes last."""
    writer.resolved(resolved)
    label, counts = writer.document.label, resolved["derived"]
    writer.event("rl.job.created", f"{label} waits to start", step=0, label=label, config_hash=resolved["config_hash"])
    totals = {"steps": counts["steps"], "iterations": counts["iterations"], "epochs": epochs}
    totals["episodes"] = counts["E"] * counts["iterations"]
    writer.status(state="queued", phase="queued", started_at=None, totals=totals)


def read_status(folder: Path) -> Json | None:
    """status.json without what is of no kind that it may be; None where there is none that can be read."""
    with suppress(OSError, ValueError):
        return parsed_status(folder)
    return None


def parsed_status(folder: Path) -> Json | None:
    """The same; None where there is none. OSError, ValueError: it cannot be read, or is no status."""
    try:
        data = RunPaths(folder).read("status.json")
    except FileNotFoundError:
        return None
    status = fitting(decode_object(data), STATUS)
    if "state" not in status:
        raise ValueError("its state is not a word")
    return status


def waits_elsewhere(folder: Path) -> bool:
    """Whether a batch system has the run in its queue, and starts it: its script lies there before any status."""
    return os.path.lexists(folder / SCRIPT)


def read_values(folder: Path) -> Json | None:
    """The values of its config as it runs, by dotted key; None: they cannot be read."""
    try:
        found = leaves(decode_object(RunPaths(folder).read("resolved.json"))["values"])
        return {key: leaf.get("value") for key, leaf in found.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def process_of(status: Json | None) -> ProcessId | None:
    """The coordinator that wrote a status."""
    names = ("pid", "start_time", "host", "boot_id")
    try:
        return msgspec.convert({name: (status or {}).get(name) for name in names}, ProcessId)
    except msgspec.ValidationError:
        return None


def warn(folder: Path, job_id: str, label: str, attempt: int, code: str, text: str) -> None:
    """A warning about a job that waits. RunLocked: it has a writer."""
    with _written(folder, job_id, label, attempt) as writer:
        writer.event("rl.warning", text, step=writer.document.step, level="warning", code=code)


def cancelled(folder: Path, job_id: str, label: str, attempt: int, *, reason: str, by: Any = None) -> None:
    """reason: stopped or killed. RunLocked: it has a writer."""
    with _written(folder, job_id, label, attempt) as writer:
        verb = "kill" if reason == "killed" else "stop"
        if not _is_told(folder, attempt, "rl.job.cancelled"):
            writer.event("rl.job.cancelled", f"the run was {reason}", step=writer.document.step, verb=verb, by=by)
        _end(writer, state="cancelled", end_reason=reason)


def failed(folder: Path, job_id: str, label: str, attempt: int, error: Json) -> None:
    """error: {code, message, hint}. RunLocked: it has a writer."""
    with _written(folder, job_id, label, attempt) as writer:
        step, data = writer.document.step, {"code": error["code"], "hint": error["hint"]}
        for kind in ("rl.train.failed", "rl.job.failed"):
            if not _is_told(folder, attempt, kind):
                writer.event(kind, error["message"], step=step, level="error", **data)
        _end(writer, state="failed", end_reason="error", error=error)


@contextmanager
def _written(folder: Path, job_id: str, label: str, attempt: int) -> Iterator[RunWriter]:
    """Under the run's lock. What the status says of the last coordinator stays, so that viewers see who it was."""
    before = read_status(folder) or {}
    paths = RunPaths(folder)
    linked = str(paths.checkpoints.readlink()) if paths.checkpoints.is_symlink() else None
    with (
        RunLock(folder, attempt=attempt),
        RunWriter(
            folder, job_id=job_id, label=label, attempt=attempt, checkpoint_dir=linked, identity=process_of(before)
        ) as writer,
    ):
        same = before.get("attempt") == attempt
        kept = ("state", "phase", "started_at", "totals") if same else ("started_at",)
        writer.note(**{name: before[name] for name in kept if name in before})
        yield writer


def _is_told(folder: Path, attempt: int, kind: str) -> bool:
    """Whether a server that then ended itself, before it wrote the status, has said so already."""
    reader = RunReader(folder)
    last = reader.events(max(0, reader.last_seq() - 2))
    return any((event.get("type"), event.get("attempt")) == (kind, attempt) for event in last)


def _end(writer: RunWriter, **facts: Any) -> None:
    writer.status(phase="done", waiting=None, paused=None, children=[], **facts)


def encoded(body: Any) -> bytes:
    """One spelling of a JSON value, for comparing: keys in order."""
    return encode(json.loads(json.dumps(body, sort_keys=True)))
