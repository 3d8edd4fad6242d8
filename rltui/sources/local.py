"""A run in a directory of this file system."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from rltui.processes import kill_leader
from rltui.sources.base import TERMINAL, Json, RunSource, Slice, Unreadable
from rltui.sources.early import early_end
from trainer.rundir import control
from trainer.rundir.process import ProcessId
from trainer.rundir.reader import RunReader


class LocalRunSource(RunSource):
    verbs = frozenset({"stop", "kill"})

    def __init__(self, folder: Path) -> None:
        self.place = str(folder)
        self._folder = folder
        self._reader = RunReader(folder)
        self._answers: dict[str, Json] = {}
        self._answers_seq = 0
        self._killed: ProcessId | None = None  # a coordinator that we know to be gone

    def status(self) -> Json | None:
        try:
            status = self._reader.status()
            if status is None and (self._folder / "status.json").exists():
                status = self._reader.status()  # it may have come between the two looks
                if status is None:
                    raise Unreadable("status.json is damaged: it is not a JSON object")
        except OSError as error:
            raise Unreadable(f"status.json cannot be read: {error.strerror or error}") from error
        if status is None:
            return early_end(self._reader.paths)
        if status.get("state") in TERMINAL:
            return status
        liveness = self._reader.liveness(status)
        if liveness == "dead" or (self._killed is not None and _identity(status) == self._killed):
            return self._lost(status)
        return {**status, "silent": True} if liveness == "silent" else status

    def events(self, cursor: Any = None, limit: int = 1000) -> Slice:
        rows = self._reader.events(cursor or 0, limit)
        return Slice(rows, rows[-1]["seq"] if rows else cursor, more=len(rows) == limit)

    def metrics(self, cursor: Any = None) -> Slice:
        part = self._reader.metrics_after(cursor)
        self._reader.resumes()
        return Slice([row for row in part.rows if self._reader.counts(row)], part.cursor, part.more)

    def episodes(self, split: str, iteration: int) -> list[Json]:
        self._reader.resumes()
        return [
            row
            for row in self._reader.index()
            if row.get("split") == split and row.get("iteration") == iteration and self._reader.counts(row)
        ]

    def episode(self, n: int) -> Json | None:
        try:
            return self._reader.episode(n)
        except LookupError:
            return None

    def checkpoints(self) -> list[Json]:
        return [
            {
                "step": checkpoint.step,
                "iteration": checkpoint.iteration,
                "path": str(checkpoint.path),
                "bytes": checkpoint.bytes,
                "reward": checkpoint.reward,
                "is_best": checkpoint.is_best,
                "resumable": checkpoint.resumable,
                "created_at": checkpoint.created_at,
            }
            for checkpoint in self._reader.checkpoints()
        ]

    def request(self, action: str, args: Json | None = None) -> str:
        return control.ask(self._folder, action, args, client="rltui")

    def answer(self, control_id: str) -> Json | None:
        for event in self._reader.events(self._answers_seq):
            self._answers_seq = event["seq"]
            if str(event.get("type")).startswith("rl.control."):
                self._answers[str((event.get("data") or {}).get("control_id"))] = event
        return self._answers.get(control_id)

    def kill(self) -> None:
        status = self._reader.status() or {}
        leader = _identity(status)
        if leader is None or not leader.same_machine():
            return
        children = [_identity({**status, **child}) for child in status.get("children") or []]
        kill_leader(leader, [child for child in children if child is not None])
        if not leader.alive():
            self._killed = leader

    def _lost(self, status: Json) -> Json:
        error = {
            "code": "process_lost",
            "message": f"the run's coordinator (pid {status.get('pid')}) ended without a word",
            "hint": f"{self._folder}/logs has its last words; what it recorded and its checkpoints stay. "
            f"Start it again: rltui train {self._folder}/config.toml",
        }
        return {
            **status,
            "state": "failed",
            "phase": "done",
            "end_reason": "error",
            "error": error,
            "waiting": None,
            "paused": None,
            "eta_s": None,
        }


def _identity(document: Json) -> ProcessId | None:
    try:
        return msgspec.convert(
            {name: document.get(name) for name in ("pid", "start_time", "host", "boot_id")}, ProcessId
        )
    except msgspec.ValidationError:
        return None
