"""Whether a live run samples from a server that is not ours (inference.url), whose weights are its own then."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from trainer.rundir.attempts import leaves
from trainer.rundir.jsonl import Json, decode_object
from trainer.rundir.process import ProcessId
from trainer.rundir.reader import SILENT_AFTER_S, RunReader
from trainer.rundir.records import TERMINAL_STATES

_THIS_MACHINE = ("localhost", "127.0.0.1", "::1", "0.0.0.0")


def used_by(url: str, runs: Iterable[Path]) -> Path | None:
    """The first of these run folders whose run lives and has this server for its engine."""
    return next((run for run in runs if _url_of(run) == _place(url) and _lives(run)), None)


def runs_in(folder: Path) -> list[Path]:
    try:
        return [Path(entry) for entry in os.scandir(folder) if entry.is_dir()]
    except OSError:
        return []


def _place(url: str) -> tuple[str, int | None] | None:
    """Host and port; None for what is no address."""
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError:
        return None
    return (_THIS_MACHINE[0] if host in _THIS_MACHINE else host), port


def _url_of(run: Path) -> tuple[str, int | None] | None:
    try:
        values = leaves(decode_object(RunReader(run).paths.read("resolved.json"))["values"])
        return _place(str(values["inference.url"]["value"] or ""))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _lives(run: Path) -> bool:
    """By its process; by its beat where that one is on another machine."""
    status = RunReader(run).status() or {}
    if status.get("state") in (*TERMINAL_STATES, "queued"):
        return False
    try:
        alive = msgspec.convert(status, ProcessId).alive()
    except msgspec.ValidationError:
        alive = None
    return _beats(status) if alive is None else alive


def _beats(status: Json) -> bool:
    beat = status.get("heartbeat")
    return isinstance(beat, (int, float)) and time.time() - beat < SILENT_AFTER_S
