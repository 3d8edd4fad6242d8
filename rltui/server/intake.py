"""Runs of the folder that no client of this server has made, such as those of `rltui train`: they become jobs too."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from rltui.server import record
from rltui.server.submit import House
from rltui.server.table import OVER, QUEUED, STARTING, JobRow, Table
from rltui.sources.base import TERMINAL
from rltui.sources.find import runs_in
from trainer.rundir.attempts import leaves
from trainer.rundir.jsonl import Json, decode_object, from_iso
from trainer.rundir.layout import RunPaths

log = logging.getLogger("rltui.server")


class Intake:
    def __init__(self, table: Table, house: House) -> None:
        self._table, self._house = table, house
        self._seen: dict[str, int] = {}  # change time of the status of runs that are over, or are of no use

    def look(self) -> None:
        """Takes in runs that are new, and again those that somebody resumed. Cheap where nothing has changed."""
        known = {row.folder: row for row in self._table.rows.values()}
        try:
            folders = runs_in(self._house.runs_dir)
        except OSError:
            return
        for folder in folders:
            row = known.get(folder.name)
            if row is not None and row.stage != OVER:
                continue
            try:
                changed = os.stat(folder / "status.json").st_mtime_ns
            except OSError:
                continue  # too young; or it never came so far
            if self._seen.get(folder.name) == changed:
                continue
            self._seen[folder.name] = changed
            if (status := record.read_status(folder)) is not None:
                try:
                    self._take(folder, status, row)
                except (TypeError, ValueError, AttributeError, KeyError) as error:  # the others are taken in
                    log.warning("the status of %s is damaged and it is no job: %s", folder.name, error)

    def _take(self, folder: Path, status: Json, row: JobRow | None) -> None:
        job_id, state = str(status.get("job_id") or ""), status.get("state")
        attempt = status.get("attempt") if isinstance(status.get("attempt"), int) else 1
        if row is None:
            if not job_id or job_id in self._table.rows:  # a copy of a run is no other job
                return
            row = _row(folder, job_id, status)
            row.attempt = attempt or 1
            self._table.add(row)
        elif state in TERMINAL or (attempt or 1) < row.attempt:
            return
        row.attempt = attempt or 1
        if state in TERMINAL:
            row.stage, row.status = OVER, str(state)
        elif state == "queued" and not record.waits_elsewhere(folder):
            row.stage, row.status, row.sets = QUEUED, "queued", list(self._house.sets)
        else:
            row.stage, row.cancel = STARTING, None  # a look sees that it runs, now or once its batch system starts it
            row.devices = [str(gpu.get("index")) for gpu in (status.get("pipeline") or {}).get("gpus") or []]
        self._table.save(row)


def _row(folder: Path, job_id: str, status: Json) -> JobRow:
    created = _seconds(status.get("created_at"))
    row = JobRow(
        job_id=job_id,
        folder=folder.name,
        stage=OVER,
        created_at=created,
        queued_at=created,
        label=str(status.get("label") or ""),
        allow_unknown=True,
    )
    try:
        resolved = decode_object(RunPaths(folder).read("resolved.json"))
        values = leaves(resolved["values"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return row

    def value(key: str) -> object:
        return values.get(key, {}).get("value")

    row.config_hash = str(resolved.get("config_hash"))
    row.model = str(value("policy.model_name") or value("policy.source") or "")
    row.task_app_url = str(value("services.task_url") or "")
    tags, gpus = value("tags"), value("compute.gpu_count")
    row.tags = tags if isinstance(tags, dict) else {}
    row.tags |= {key[5:]: leaf.get("value") for key, leaf in values.items() if key.startswith("tags.")}
    row.gpus = gpus if isinstance(gpus, int) else 0
    row.placed = value("compute.launcher") in (None, "local") and not record.waits_elsewhere(folder)
    return row


def _seconds(text: object) -> float:
    try:
        return from_iso(str(text))
    except ValueError:
        return 0.0
