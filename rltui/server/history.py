"""What became of a run over time, from its events: attempts and phases."""

from __future__ import annotations

from pathlib import Path

from rltui.server.job import present, word
from rltui.server.table import JobRow
from trainer.rundir.jsonl import Json
from trainer.rundir.reader import RunReader

ENDS = {"rl.job.completed": "succeeded", "rl.job.failed": "failed", "rl.job.cancelled": "cancelled"}


def attempts(row: JobRow, folder: Path) -> list[Json]:
    """One entry for each start, oldest first."""
    found: dict[int, Json] = {}
    for event in _events(folder, b"rl.job."):
        number = event.get("attempt") or 1
        run = found.setdefault(number, _run(row, number))
        if event.get("type") == "rl.job.started":
            run["started_at"], run["status"] = event.get("created_at"), "running"
        elif event.get("type") in ENDS:
            run["finished_at"], run["status"] = event.get("created_at"), ENDS[str(event["type"])]
    found.setdefault(row.attempt, _run(row, row.attempt))["status"] = word(row, present(row, folder))
    return [found[number] for number in sorted(found)]


def timeline(folder: Path, limit: int) -> list[Json]:
    """The newest `limit` changes of phase and state, oldest first."""
    events = sorted([*_events(folder, b"rl.job."), *_events(folder, b"rl.phase")], key=lambda event: event["seq"])
    return [
        {
            "phase": (event.get("data") or {}).get("phase") or str(event.get("type")).removeprefix("rl.job."),
            "metadata": event.get("data") or {},
            "created_at": event.get("created_at"),
        }
        for event in events[-limit:]
    ]


def _run(row: JobRow, attempt: int) -> Json:
    run_id = f"{row.job_id}-{attempt}"
    return {"run_id": run_id, "attempt": attempt, "started_at": None, "finished_at": None, "status": "queued"}


def _events(folder: Path, containing: bytes) -> list[Json]:
    """Events whose type begins so."""
    reader, cursor, found = RunReader(folder), None, []
    while True:
        part = reader.lines_after("events.jsonl", cursor, containing=b'"type":"' + containing)
        found += [row for row in part.rows if isinstance(row.get("seq"), int)]
        cursor = part.cursor
        if not part.more:
            return found
