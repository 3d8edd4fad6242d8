"""The jobs of a server: what its routes ask for. Safe for threads; a thread of its own looks after the runs."""

from __future__ import annotations

import hashlib
import logging
import shutil
import threading
import time
import tomllib
from pathlib import Path
from typing import Any

from rltui.job_post import APP_KEY_HEADER
from rltui.launch.local import LocalLauncher
from rltui.server import record
from rltui.server.answers import Refused
from rltui.server.bodies import read_body
from rltui.server.intake import Intake
from rltui.server.job import Listing, present, word
from rltui.server.overseer import Overseer
from rltui.server.slots import Places, position
from rltui.server.submit import House, check_live, further, loaded_of, wants
from rltui.server.table import CREATED, MAKING, OVER, QUEUED, STARTED, STARTING, JobRow, Table
from rltui.server.tomltext import to_toml
from rltui.sources.base import TERMINAL
from trainer.rundir import control
from trainer.rundir.jsonl import Json, iso
from trainer.rundir.layout import RunPaths, make_folder, new_job_id, run_folder_name

log = logging.getLogger("rltui.server")

TABLE = Path(".server") / "jobs.sqlite3"  # in the runs folder
LOOK_S = 0.25
INTAKE_S = 2.0
ENDING_S = 20.0
MAX_KEY_CHARS = 200


class Jobs:
    """Raises InUse where another server has the runs folder, OSError where it cannot be written."""

    def __init__(self, house: House, places: Places) -> None:
        self.house, self.places = house, places
        make_folder(house.runs_dir, parents=True)
        self.lock = threading.RLock()
        self.table = Table(house.runs_dir / TABLE)
        self.listing = Listing()
        self._keys: dict[str, str] = {}
        self._overseer = Overseer(self.table, house, places, LocalLauncher(), self._keys, self._folder)
        self._intake = Intake(self.table, house)
        self._wake, self._closing = threading.Event(), False
        self._thread = threading.Thread(target=self._watch, name="jobs", daemon=True)

    def open(self) -> None:
        with self.lock:
            for row in self.table.stages(MAKING):
                self._finish_making(row)
            self._intake.look()
            self._overseer.take_up()
        self._thread.start()

    def close(self) -> None:
        """The runs go on."""
        self._closing = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()
        with self.lock:
            self.table.close()

    # --- looking up

    def folder(self, job_id: str) -> Path | None:
        """Where a job's run lies; None: no such job, or its folder is gone."""
        row = self.table.rows.get(job_id)
        if row is None or row.stage == MAKING:
            return None
        folder = self._folder(row)
        return folder if folder.is_dir() else None

    def attempt(self, job_id: str) -> int:
        """The one that was asked for last; 0: no such job."""
        row = self.table.rows.get(job_id)
        return 0 if row is None else row.attempt

    def place(self, job_id: str) -> int | None:
        """Its position in the queue, from 1; None: it does not wait."""
        with self.lock:
            row = self.table.rows.get(job_id)
            return position(row, self.table.stages(QUEUED)) if row is not None and row.stage == QUEUED else None

    def row(self, job_id: str) -> tuple[JobRow, Path]:
        """Raises Refused."""
        folder = self.folder(job_id)
        if folder is None:
            raise Refused(404, "not_found", f"no job {job_id[:100]!a} on this server")
        return self.table.rows[job_id], folder

    def word(self, row: JobRow) -> str:
        """Its status as it is now: the row's is that of the last look."""
        return row.status if row.stage == OVER else word(row, present(row, self._folder(row)))

    def newest(self) -> list[JobRow]:
        """All of them, newest first."""
        with self.lock:
            rows = [row for row in self.table.rows.values() if row.stage != MAKING]
        return sorted(rows, key=lambda row: (row.created_at, row.number), reverse=True)

    def changes(self, since: int, limit: int = 500) -> list[Json]:
        with self.lock:
            return list(self.table.changes(since, limit))

    def queue(self) -> Json:
        """What runs and what waits, for /system."""
        with self.lock:
            holding, waiting = self.table.stages(STARTING, STARTED), self.table.stages(QUEUED)
            taken = {device for row in holding for device in row.devices}
            return {
                "running": len(holding),
                "queued": len(waiting),
                "cpu_jobs": self.places.cpu_jobs,
                "gpus": list(self.places.gpus),
                "gpus_free": [device for device in self.places.gpus if device not in taken],
            }

    def stored_config(self, name: str) -> Json | None:
        """The config of an earlier job by its id or its hash."""
        rows = [row for row in self.newest() if name in (row.job_id, row.config_hash)]
        for row in rows:
            try:
                return tomllib.loads(RunPaths(self._folder(row)).read("config.toml").decode("utf-8-sig"))
            except (OSError, ValueError):
                continue
        return None

    # --- changing

    def create(self, body: Any, *, idempotency_key: str | None, key: str | None) -> tuple[JobRow, bool]:
        """A new job, or the earlier one of the same idempotency key; whether it is new. Raises Refused."""
        if idempotency_key is not None and not 0 < len(idempotency_key) <= MAX_KEY_CHARS:
            raise Refused(422, "idempotency_key", f"an Idempotency-Key has 1 to {MAX_KEY_CHARS} characters")
        digest = hashlib.sha256(record.encoded(body)).hexdigest()
        if (known := self._known(idempotency_key, digest)) is not None:
            return known, False
        asked = read_body(body, self.stored_config)
        loaded = loaded_of(asked, self.house)
        job_id, label, now = new_job_id(), loaded.config.policy.label, time.time()
        gpus, placed = wants(loaded)
        row = JobRow(
            job_id=job_id,
            folder=run_folder_name(label, job_id),
            stage=MAKING,
            created_at=now,
            queued_at=now,
            label=label,
            model=loaded.config.policy.model_name or loaded.config.policy.source,
            task_app_url=loaded.config.services.task_url,
            config_hash=loaded.config_hash,
            tags=dict(loaded.config.tags),
            metadata=asked.metadata,
            idempotency_key=idempotency_key,
            body_hash=digest,
            gpus=gpus,
            placed=placed,
            sets=list(self.house.sets),
            allow_unknown=asked.allow_unknown,
            needs_key=key is not None,
        )
        with self.lock:
            if (known := self._known(idempotency_key, digest)) is not None:  # another client was quicker
                return known, False
            if self._closing:
                raise Refused(503, "shutting_down", "the server is shutting down")
            self.table.add(row)
            try:
                record.create(
                    self._folder(row),
                    job_id=job_id,
                    label=label,
                    given=asked.given,
                    config=to_toml(asked.config),
                    resolved=loaded.resolved(),
                    epochs=loaded.config.training.num_epochs,
                    checkpoint_dir=loaded.config.checkpoint.dir,
                )
            except OSError as error:
                self._drop(row)
                why = f"the run's folder cannot be made in {self.house.runs_dir}: {error.strerror or error}"
                raise Refused(503, "runs_dir", why) from error
            if key is not None:
                self._keys[job_id] = key
            self._queue(row, CREATED)
        self._wake.set()
        return row, True

    def cancel(self, job_id: str, mode: str, by: Any) -> tuple[JobRow, Path]:
        """Asks a job to end. Repeatable; one that has ended stays as it is. Raises Refused."""
        with self.lock:
            row, folder = self.row(job_id)
            if row.stage == QUEUED:
                self._overseer.cancel_queued(row, by)
            elif row.stage in (STARTING, STARTED) and present(row, folder).get("state") not in TERMINAL:
                if row.cancel != "now":
                    row.cancel, row.cancel_by = mode, by
                    self.table.save(row)
        self._wake.set()
        return row, folder

    def control(self, job_id: str, action: str, args: Json, by: Any) -> str:
        """A request to a running job; its control_id. Raises Refused."""
        with self.lock:
            row, folder = self.row(job_id)
            if action == "set":
                check_live(args)
            now = present(row, folder)
            state = now.get("state")
            if row.stage not in (STARTING, STARTED) or state in TERMINAL or state in (None, "queued"):
                raise Refused(409, "not_live", f"job {job_id} is {word(row, now)}: nobody takes requests")
            if action == "kill":
                self.cancel(job_id, "now", by)
        return control.ask(folder, action, args, client="rltui serve", by=by)

    def resume(self, job_id: str, from_step: int | None, overrides: Json, key: str | None) -> tuple[JobRow, Path]:
        """A further attempt of an ended job, which waits in its turn. Raises Refused."""
        self._let_end(*self.row(job_id))
        with self.lock:
            row, folder = self.row(job_id)
            if row.stage != OVER:
                raise Refused(409, "not_ended", f"job {job_id} is {row.status}; it goes on once it has ended")
            found = further(folder, from_step, overrides, self.house)
            if row.needs_key and key is None and "://" in found.loaded.config.services.task_url:
                why = f"job {job_id} came with a key of its task app, and keys are never stored: send it again"
                how = f"(header {APP_KEY_HEADER}; clients take it from ENVIRONMENT_API_KEY)"
                raise Refused(422, "task_app_key", f"{why} {how}")
            gpus, placed = wants(found.loaded)
            row.gpus, row.placed, row.sets, row.attempt = gpus, placed, found.sets, found.attempt
            row.allow_unknown, row.resume, row.from_step = found.allow_unknown, True, found.from_step
            row.cancel, row.cancel_by, row.status, row.queued_at = None, None, "queued", time.time()
            row.needs_key = key is not None
            if key is not None:
                self._keys[job_id] = key
            self._queue(row, CREATED)
        self._wake.set()
        return row, folder

    # --- how

    def _let_end(self, row: JobRow, folder: Path) -> None:
        """A run tells its end a moment before its processes are gone, and whoever polls may go on with it at once."""
        deadline = time.monotonic() + ENDING_S
        while row.stage != OVER and present(row, folder).get("state") in TERMINAL and time.monotonic() < deadline:
            time.sleep(0.05)

    def _known(self, idempotency_key: str | None, digest: str) -> JobRow | None:
        if idempotency_key is None:
            return None
        with self.lock:
            row = self.table.with_key(idempotency_key)
            if row is not None and row.stage == OVER and not self._folder(row).is_dir():
                self.table.remove(row)  # the key is kept as long as the job
                return None
        if row is not None and row.body_hash != digest:
            why = f"this Idempotency-Key was used for job {row.job_id}, whose body is another"
            raise Refused(409, "idempotency_conflict", why, [{"job_id": row.job_id}])
        return row

    def _queue(self, row: JobRow, kind: str) -> None:
        row.stage = QUEUED
        self.table.change(row, kind, message=f"{row.label} waits", created_at=iso(row.created_at))

    def _finish_making(self, row: JobRow) -> None:
        """A server ended while it made this one: its status is written last, so it is whole or is not."""
        if (record.read_status(self._folder(row)) or {}).get("state") == "queued":
            self._queue(row, CREATED)
        else:
            self._drop(row)

    def _drop(self, row: JobRow) -> None:
        shutil.rmtree(self._folder(row), ignore_errors=True)
        self.table.remove(row)

    def _folder(self, row: JobRow) -> Path:
        return self.house.runs_dir / row.folder

    def _watch(self) -> None:
        looked = time.monotonic()
        while not self._closing:
            self._wake.wait(LOOK_S)
            self._wake.clear()
            try:
                with self.lock:
                    if self._closing:
                        return
                    if time.monotonic() - looked >= INTAKE_S:
                        looked = time.monotonic()
                        self._intake.look()
                    self._overseer.look()
            except Exception:  # the queue must go on whatever one job does to it
                log.exception("a look at the jobs failed")
