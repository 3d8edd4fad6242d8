"""The table of jobs: what the server knows of a run and its folder does not tell. SQLite, in WAL mode.

A job is one JSON document in one row. All of them are kept in memory as well, in the order of their making: a
server has thousands of jobs at most, and every request asks for some. Not safe for threads by itself: see `Jobs`.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from trainer.rundir.jsonl import Json
from trainer.rundir.layout import make_folder

MAKING, QUEUED, STARTING, STARTED, OVER = "making", "queued", "starting", "started", "over"
# Where in its life a job is. making: its folder is not complete, and nobody was told of it. starting: its coordinator
# was, or is about to be, started, and has written no status yet. over: no process of it is left.

CREATED, BEGAN = "job.created", "job.started"  # types of changes
ENDS = {"succeeded": "job.completed", "failed": "job.failed", "cancelled": "job.cancelled"}

_TABLES = """
CREATE TABLE IF NOT EXISTS jobs (number INTEGER PRIMARY KEY AUTOINCREMENT, job_id TEXT NOT NULL UNIQUE,
                                 idempotency_key TEXT UNIQUE, document BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS changes (seq INTEGER PRIMARY KEY AUTOINCREMENT, document BLOB NOT NULL);
"""


class InUse(RuntimeError):
    """Another server has this table open."""


class JobRow(msgspec.Struct, kw_only=True):
    """One job. `status` is the word of WIRE 3.4 that was told last."""

    job_id: str
    folder: str  # its name in the runs folder
    stage: str
    created_at: float
    queued_at: float  # of this attempt
    number: int = 0
    status: str = "queued"
    attempt: int = 1  # the newest that was asked for
    label: str = ""
    model: str | None = None
    task_app_url: str | None = None
    config_hash: str | None = None
    tags: Json = {}
    metadata: Json = {}  # with user_id and org_id, of the client's headers of these names
    idempotency_key: str | None = None
    body_hash: str | None = None
    gpus: int = 0  # that it wants; 0: it runs on the CPU
    placed: bool = True  # False: its processes run elsewhere (Ray, Slurm), and take no place of this machine
    devices: list[str] = []  # GPUs that it holds, as CUDA_VISIBLE_DEVICES names them
    sets: list[str] = []  # KEY=VALUE of this attempt
    allow_unknown: bool = False
    resume: bool = False
    from_step: int | None = None
    cancel: str | None = None  # graceful or now, once that was asked for
    cancel_by: Json | None = None  # {user, host, pid, client} of who asked for it
    needs_key: bool = False  # a key of its task app came with it, which is kept in memory alone
    pid: int | None = None  # of the coordinator that was started here, until its status tells
    start_time: int | None = None


class Table:
    def __init__(self, path: Path) -> None:
        """Raises InUse; sqlite3.Error for a file that is no table of ours."""
        make_folder(path.parent, parents=True)
        path.touch(0o600)
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=1.0)
        try:
            # One process has it open: the index of the log is then in memory, and a network file system will do.
            self._db.execute("PRAGMA locking_mode=EXCLUSIVE")
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=FULL")
            self._db.executescript(_TABLES)
        except sqlite3.OperationalError as error:
            self._db.close()
            if "locked" in str(error):
                raise InUse(f"another job server has {path.parent.parent} open") from error
            raise
        self.rows: dict[str, JobRow] = {}
        self._by_key: dict[str, str] = {}
        for number, document in self._db.execute("SELECT number, document FROM jobs ORDER BY number"):
            row = msgspec.json.decode(document, type=JobRow)
            row.number = number
            self._know(row)
        self.last_change = self._db.execute("SELECT coalesce(max(seq), 0) FROM changes").fetchone()[0]

    def add(self, row: JobRow) -> None:
        """A new one, which is given its number. It is on the disk when this returns."""
        made = self._db.execute(
            "INSERT INTO jobs (job_id, idempotency_key, document) VALUES (?, ?, ?)",
            (row.job_id, row.idempotency_key, msgspec.json.encode(row)),
        )
        row.number = made.lastrowid or 0
        self._know(row)

    def save(self, row: JobRow) -> None:
        self._db.execute("UPDATE jobs SET document = ? WHERE job_id = ?", (msgspec.json.encode(row), row.job_id))

    def remove(self, row: JobRow) -> None:
        self._db.execute("DELETE FROM jobs WHERE job_id = ?", (row.job_id,))
        self.rows.pop(row.job_id, None)
        if row.idempotency_key is not None:
            self._by_key.pop(row.idempotency_key, None)

    def with_key(self, key: str) -> JobRow | None:
        job_id = self._by_key.get(key)
        return None if job_id is None else self.rows[job_id]

    def stages(self, *stages: str) -> list[JobRow]:
        return [row for row in self.rows.values() if row.stage in stages]

    def change(self, row: JobRow, kind: str, **facts: Any) -> None:
        """A line of the stream over all jobs (WIRE 3.2, /jobs/stream), saved with the row: both stand, or neither."""
        document = {
            "org_id": org if isinstance(org := row.metadata.get("org_id"), str) else None,
            "job_id": row.job_id,
            "job_type": "rl",
            "status": row.status,
            "type": kind,
            "ts": time.time(),
            **facts,
        }
        self._db.execute("BEGIN")
        with self._db:  # ends what was begun
            self.save(row)
            made = self._db.execute("INSERT INTO changes (document) VALUES (?)", (msgspec.json.encode(document),))
        self.last_change = made.lastrowid or self.last_change

    def changes(self, since: int, limit: int) -> Iterator[Json]:
        found = self._db.execute("SELECT seq, document FROM changes WHERE seq > ? ORDER BY seq LIMIT ?", (since, limit))
        for seq, document in found.fetchall():
            yield {**msgspec.json.decode(document), "seq": seq}

    def close(self) -> None:
        self._db.close()

    def _know(self, row: JobRow) -> None:
        self.rows[row.job_id] = row
        if row.idempotency_key is not None:
            self._by_key[row.idempotency_key] = row.job_id
