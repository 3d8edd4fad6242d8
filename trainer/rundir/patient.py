"""The writer of a run that outlives a full disk: records wait in memory, in order, until there is room again."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from trainer.rundir.disk import DiskFull
from trainer.rundir.records import EpisodeRecord, GroupRecord, JudgeRecord
from trainer.rundir.writer import RunWriter


class PatientWriter(RunWriter):
    """A `RunWriter` that takes every record of the pipeline at once and raises no `DiskFull` for it.

    While `disk_full` is set, records wait. The run has to pause meanwhile: what waits is then no more than the
    episodes that were running and the step that was under way.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._late: deque[tuple[str, Callable[[], object]]] = deque()
        super().__init__(*args, **kwargs)

    @property
    def waiting(self) -> int:
        """Records that are not on the disk yet."""
        return len(self._late)

    def event(self, type_: str, message: str, *, step: int, level: str = "info", **data: Any) -> int:
        """As there; the reserve lets events through on a full disk, as long as none waits before them."""
        self._take("event", partial(super().event, type_, message, step=step, level=level, **data))
        return self.last_seq + self._count("event")

    def metrics(self, values: Mapping[str, float], **place: Any) -> None:
        self._take("metrics", partial(super().metrics, dict(values), **place))

    def episode(self, record: EpisodeRecord) -> int:
        n = self.next_n + self._count("episode")
        record.t = record.t or self._clock()
        self._take("episode", partial(super().episode, record))
        return n

    def judge(self, record: JudgeRecord) -> int:
        """As there; -1 for a line that waits: its place is not known yet."""
        place = -1

        def write() -> None:
            nonlocal place
            place = super(PatientWriter, self).judge(record)

        self._take("judge", write)
        return place

    def update(self, n: int, **fields: Any) -> None:
        self._take("update", partial(super().update, n, **fields))

    def group(self, record: GroupRecord) -> None:
        self._take("group", partial(super().group, record))

    def use(self, n: int, branch: int, arrays: Mapping[str, np.ndarray], **fields: Any) -> None:
        """The learner's arrays of a branch, and the `use` line that refers to them."""
        self._take("use", partial(self._use, n, branch, arrays, fields))

    def _use(self, n: int, branch: int, arrays: Mapping[str, np.ndarray], fields: dict[str, Any]) -> None:
        place = super().learner_block(n, branch, arrays)  # again after a failure: nothing refers to the first one
        super().update(n, kind="use", branch=branch, arr=place, **fields)

    def sync(self) -> None:
        try:
            super().sync()
        except DiskFull:
            pass  # `disk_full` is set; what was not synced is with the next call that succeeds

    def flush(self) -> None:
        try:
            super().flush()
        except DiskFull:
            self.disk_full = True  # the next beat writes the document as it is then

    def recover(self) -> bool:
        """True once the reserve is back, with room besides, and nothing waits any more."""
        if not super().recover():
            return False
        while self._late:
            try:
                self._late[0][1]()
            except DiskFull:
                return False
            self._late.popleft()
        return True

    def close(self) -> None:
        if self._late:
            self.recover()
        super().close()

    def _take(self, kind: str, write: Callable[[], object]) -> None:
        before = self._count("event") if kind == "event" else len(self._late)
        if not before:
            try:
                write()
                return
            except DiskFull:
                self.disk_full = True
        self._late.append((kind, write))

    def _count(self, kind: str) -> int:
        return sum(1 for waiting, _ in self._late if waiting == kind)
