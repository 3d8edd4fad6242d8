"""The record of a run that is open, and what the doctor says of it: the one part of this folder that reads."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rltui.doctor.bands import Table, bands_file, load
from rltui.doctor.doctor import Doctor, Finding
from rltui.doctor.record import Json, Record
from rltui.sources.base import Unreadable

if TYPE_CHECKING:
    from rltui.model.run import RunModel

EPISODES = 200  # at the start and at the end, whose times are compared
CALLS = 1_000  # to the judge, the newest ones
CALLS_S = 0.2  # for reading them, of one look
AGAIN = 50  # new episodes, from which on they are read again


class Checkup:
    """One run's. `look` reads and belongs to the thread that refreshes the model; `findings` is replaced, never
    changed."""

    def __init__(self, table: Table | None = None) -> None:
        self.table = table if table is not None else load(bands_file())
        self.findings: tuple[Finding, ...] = ()
        self.record = Record()
        self.muted: Mapping[str, str] = {}
        self._doctor = Doctor(self.table.values)
        self._documents: tuple[object, Json, Json] | None = None  # of which attempt; resolved, environment
        self._first: list[float] = []
        self._last: list[float] = []
        self._counted = 0
        self._calls: deque[tuple[int, str]] = deque(maxlen=CALLS)
        self._calls_cursor: Any = None

    def look(self, model: RunModel) -> bool:
        """Examine the run as its model has it. True: what is said has changed."""
        self.record = self._record(model)
        if not model.live:  # its last lines belong to a step that was read already: begin anew, as for any ended run
            self._doctor = Doctor(self.table.values)
        found = self._doctor.examine(self.record, self.muted)
        if found == self.findings:
            return False
        self.findings = found
        return True

    def mute(self, muted: Mapping[str, str]) -> None:
        """From the next look on, these rules are muted, with their reasons."""
        self.muted = dict(muted)

    def _record(self, model: RunModel) -> Record:
        resolved, environment = self._read_documents(model)
        self._read_walls(model)
        self._read_calls(model)
        return Record(
            series=model.metrics.series,
            times=model.metrics.labels["time"],
            step=model.metrics.step,
            status=model.status or {},
            events=model.events,
            resolved=resolved,
            environment=environment,
            judge_calls=tuple(self._calls),
            walls=(self._first, self._last),
            now=model.now(),
        )

    def _read_documents(self, model: RunModel) -> tuple[Json, Json]:
        """Both are written once an attempt; the second one late in its start."""
        attempt = (model.status or {}).get("attempt"), (model.status or {}).get("phase") == "starting"
        if self._documents is None or self._documents[0] != attempt:
            resolved, environment = (_document(model, name) for name in ("resolved.json", "environment.json"))
            self._documents = attempt, resolved, environment
        return self._documents[1], self._documents[2]

    def _read_walls(self, model: RunModel) -> None:
        count = model.episodes.recorded
        if count < self._counted:  # another run has taken the folder
            self._counted, self._first, self._last = 0, [], []
        if count < EPISODES or count < self._counted + AGAIN:
            return
        self._counted = count
        if not self._first:
            self._first = _walls(model, 0, EPISODES)
        self._last = _walls(model, count - EPISODES, count)

    def _read_calls(self, model: RunModel) -> None:
        """Read on in the calls to the judge; they are there before an iteration has closed."""
        more, deadline = True, time.perf_counter() + CALLS_S
        while more and time.perf_counter() < deadline:
            try:
                part = model.source.judge(self._calls_cursor)
            except Unreadable:
                return
            self._calls_cursor, more = part.cursor, part.more
            if part.rewind is not None:
                self._calls = deque((call for call in self._calls if call[0] <= part.rewind), CALLS)
            for row in part.rows:
                step = row.get("step")
                if row.get("status") != "cached" and type(step) is int:
                    failed = row.get("status") == "failed"
                    self._calls.append((step, str(row.get("code") or "?") if failed else ""))


def _document(model: RunModel, name: str) -> Json:
    try:
        return model.source.document(name) or {}
    except Unreadable:
        return {}


def _walls(model: RunModel, n0: int, n1: int) -> list[float]:
    try:
        rows = model.source.index(n0, n1, ("wall", "split"))
    except Unreadable:
        return []
    return [row["wall"] for row in rows if row.get("split") == "train" and type(row.get("wall")) in (int, float)]
