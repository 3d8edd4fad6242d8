"""Reading a run folder, live or ended.

What any viewer needs, without a lock and without a notice from the writer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import msgspec

from trainer.rundir.checkpoints import Checkpoint, counting, list_checkpoints
from trainer.rundir.closed import ClosedAt
from trainer.rundir.jsonl import Json, decode_object
from trainer.rundir.layout import INDEX_BYTES, UPDATE_BYTES, RunPaths, text_segment, token_segment
from trainer.rundir.lines import Cursor, Damage, Slice, read_lines, seek_line
from trainer.rundir.process import ProcessId
from trainer.rundir.records import TERMINAL_STATES
from trainer.rundir.resume import Resumed, counts, merge_metrics, merge_updates, resumes_in
from trainer.rundir.update_index import UpdateIndex

if TYPE_CHECKING:
    import numpy as np

BEAT_S = 2.0
DEAD_AFTER_S = 3 * BEAT_S
SILENT_AFTER_S = 60.0
MAX_DAMAGE = 1_000
ROW_FIELDS = ("n", "attempt", "step", "split", "excl")  # what decides whether an index row counts
SLICE_BYTES, SLICE_LINES = 1 << 20, 2_000  # of one read for a viewer: a few tens of milliseconds

Liveness = Literal["none", "queued", "alive", "silent", "dead", "ended"]


class RunReader:
    """Cursor reads over one run. Keep the object while watching: it remembers how far it has read.

    A missing file reads as empty; only `episode` and `token_block` of what is not there raise.
    """

    def __init__(self, root: str | Any, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.paths = RunPaths(root)
        self.damaged: list[Damage] = []  # lines that were passed over, each once
        self._damage_seen: set[tuple[str, int]] = set()
        self._clock = clock
        self._beat: tuple[object, float] | None = None
        self._event_cursor: tuple[int, Cursor] = (0, Cursor())
        self._resumes = _Growing("events.jsonl", containing=b"rl.resumed")
        self._metrics = _Growing("metrics.jsonl")
        self._groups = _Growing("rollouts/groups.jsonl")
        self._update_index = UpdateIndex(self.paths)
        self._closed: tuple[int, ClosedAt] | None = None  # and the attempt before which it knows the groups

    # The present

    def status(self) -> Json | None:
        """status.json as it stands; None where there is none (yet)."""
        try:
            return decode_object(self.paths.read("status.json"))
        except (FileNotFoundError, ValueError):
            return None

    def liveness(self, status: Json | None = None) -> Liveness:
        """Whether the coordinator lives, by its beat on this reader's own clock (WIRE 5.2).

        dead: three beats without change and no such process on this machine; shown as failed, `process_lost`.
        silent: 60 s without change where the process cannot be looked up, or hangs. ended: a terminal state.
        """
        status = status or self.status()
        if status is None:
            return "none"
        if status.get("state") in TERMINAL_STATES:
            return "ended"
        if status.get("state") == "queued":
            return "queued"
        beat = (status.get("attempt"), status.get("pid"), status.get("beat"))
        now = self._clock()
        if self._beat is None or self._beat[0] != beat:
            self._beat = (beat, now)
        unchanged_s = now - self._beat[1]
        try:
            identity = msgspec.convert(status, ProcessId)
        except msgspec.ValidationError:
            return "silent" if unchanged_s >= SILENT_AFTER_S else "alive"
        alive = identity.alive()
        if alive is False and max(unchanged_s, _age_here(identity, status)) >= DEAD_AFTER_S:
            return "dead"
        return "silent" if unchanged_s >= SILENT_AFTER_S else "alive"

    # Events and metrics

    def events(self, since_seq: int = 0, limit: int = 5_000) -> list[Json]:
        """Events with seq > since_seq, oldest first. Asking on from the last seq costs only the new lines."""
        known, cursor = self._event_cursor
        if known != since_seq or since_seq == 0:
            cursor = seek_line(self.paths, "events.jsonl", _seq, since_seq) if since_seq else Cursor()
        found: list[Json] = []
        while len(found) < limit:
            part = self._noted(read_lines(self.paths, "events.jsonl", cursor, limit, max_bytes=SLICE_BYTES))
            if part.restarted:
                found = []
            for row, offset in zip(part.rows, part.offsets, strict=True):
                if isinstance(row.get("seq"), int) and row["seq"] > since_seq:
                    if len(found) == limit:
                        self._event_cursor = (found[-1]["seq"], Cursor(part.cursor.inode, offset))
                        return found
                    found.append(row)
            cursor = part.cursor
            if not part.more:
                break
        self._event_cursor = (found[-1]["seq"] if found else since_seq, cursor)
        return found

    def last_seq(self) -> int:
        """Seq of the newest event that can be read; 0 where there is none."""
        try:
            end = self.paths.events.lstat().st_size
            data = self.paths.read("events.jsonl", max(0, end - SLICE_BYTES))
        except FileNotFoundError:
            return 0
        for line in reversed(data[: data.rfind(b"\n") + 1].split(b"\n")):
            try:
                return int(decode_object(line)["seq"])
            except (ValueError, KeyError, TypeError):
                continue
        return 0

    def resumes(self) -> list[Resumed]:
        """The resumes so far, oldest first."""
        self._noted(self._resumes.refresh(self.paths, resumes_in))
        return self._resumes.rows

    def counts(self, line: Json) -> bool:
        """Whether a line still counts after the resumes known since the last call of `resumes()`."""
        return counts(line, self._resumes.rows)

    def row_counts(self, row: Json) -> bool:
        """As `counts`, for an index row with its fields ROW_FIELDS: by the batch that the episode was in."""
        attempt, resumes = row.get("attempt"), self._resumes.rows
        if not isinstance(attempt, int) or all(later.attempt <= attempt for later in resumes):
            return True
        newest = max(later.attempt for later in resumes)
        closed = self._closed
        if closed is None or closed[0] != newest:
            closed = self._closed = newest, ClosedAt(self.paths, newest, self.episode_count())
        return closed[1].counts(row, resumes)

    def lines_after(
        self,
        name: str,
        cursor: Cursor | None = None,
        *,
        containing: bytes = b"",
        fields: tuple[str, ...] | None = None,
    ) -> Slice:
        """Lines of a file as written, after a cursor (None: from the start), at most 2,000 or about 1 MB of them.

        `fields`: nothing but these, in a third of the time.
        """
        decode = decode_object if fields is None else _partial(fields)
        return self._noted(
            read_lines(
                self.paths, name, cursor, SLICE_LINES, max_bytes=SLICE_BYTES, containing=containing, decode=decode
            )
        )

    def metrics(self) -> list[Json]:
        """One object per (attempt, step) that counts, in order."""
        self._noted(self._metrics.refresh(self.paths))
        return merge_metrics(self._metrics.rows, self.resumes())

    # Episodes

    def episode_count(self) -> int:
        """Rows of the index."""
        return self._count(self.paths.index, INDEX_BYTES)

    def index(self, n0: int = 0, n1: int | None = None) -> list[Json]:
        """Index rows n0 <= n < n1, as written.

        Damaged ones are passed over. Costs only the rows asked for.
        """
        rows = self._fixed("rollouts/index.jsonl", INDEX_BYTES, n0, n1)
        return [self._completed(row) if row.get("cut") else row for row in rows]

    def index_fields(self, fields: Iterable[str], n0: int, n1: int) -> list[Json]:
        """As `index`, with nothing but n, attempt, step and these fields: reads many rows in half the time."""
        wanted = tuple(sorted({"n", "attempt", "step", "cut", *fields}))
        rows = self._fixed("rollouts/index.jsonl", INDEX_BYTES, n0, n1, _partial(wanted))
        if any(row.get("cut") for row in rows):  # what gave way stands in the text line
            return [{name: row[name] for name in wanted if name in row} for row in self.index(n0, n1)]
        return rows

    def episode(self, n: int) -> Json:
        """The text line of an episode.

        All that is known at its end. LookupError: no such row, or it is damaged.
        """
        rows = self._fixed("rollouts/index.jsonl", INDEX_BYTES, n, n + 1) if n >= 0 else []
        if not rows:
            raise LookupError(f"episode {n} is not in {self.paths.index}, or its row is damaged")
        return self._text(rows[0].get("text"))

    def updates(self, n: int) -> list[Json]:
        """The update lines of episode `n` that count, oldest first."""
        self._update_index.refresh(self.episode_count())
        self.resumes()
        lines = []
        for row in self._update_index.rows_of(n):
            lines += self._fixed("rollouts/updates.jsonl", UPDATE_BYTES, row, row + 1)
        return [line for line in lines if self.counts(line)]

    def merged_updates(self, n: int) -> Json:
        """Those lines merged: {adv, excl, detail, branches: {number: {w, s, clip, …}}}."""
        return merge_updates(self.updates(n))

    def recent_updates(self, rows: int = 4_000) -> Cursor:
        """Where the last `rows` lines of updates.jsonl begin."""
        try:
            found = self.paths.updates.lstat()
        except FileNotFoundError:
            return Cursor()
        start = max(0, found.st_size // UPDATE_BYTES - rows) * UPDATE_BYTES
        return Cursor(found.st_ino, start) if start else Cursor()

    def groups(self) -> list[Json]:
        """Closed groups that count, in the order of writing."""
        self._noted(self._groups.refresh(self.paths))
        self.resumes()
        return [line for line in self._groups.rows if self.counts(line)]

    def judge_after(self, cursor: Cursor | None = None, limit: int | None = None) -> Slice:
        """Judge calls after a cursor."""
        return self._noted(read_lines(self.paths, "judge.jsonl", cursor, limit))

    def judge_lines(self) -> Iterator[Json]:
        """Judge calls of all attempts: what was paid for counts, whatever became of the episode."""
        cursor = None
        while True:
            part = self.judge_after(cursor)
            yield from part.rows
            if not part.more:
                return
            cursor = part.cursor

    def token_block(self, ref: list[int] | tuple[int, int, int]) -> dict[str, np.ndarray]:
        """Arrays [tokens] of the block at [segment, offset, bytes]. TokensRemoved, DamagedBlock."""
        from trainer.rundir.tokens import DamagedBlock, TokensRemoved, decode_block

        if not _is_place(ref):
            raise DamagedBlock(f"{ref!r} is no place of a token block")
        segment, offset, count = ref
        name = token_segment(segment)
        try:
            block = self.paths.read(name, offset, count)
        except FileNotFoundError as error:
            raise TokensRemoved(f"token arrays were removed: {name} is gone") from error
        return decode_block(block)[1]

    def checkpoints(self) -> list[Checkpoint]:
        """Finished checkpoints that count, oldest first."""
        return counting(list_checkpoints(self.paths.checkpoints), self.resumes())

    # How

    def _text(self, ref: Any) -> Json:
        if not _is_place(ref):
            raise LookupError(f"{ref!r} is no place of a text")
        segment, offset, count = ref
        name = text_segment(segment)
        try:
            return decode_object(self.paths.read(name, offset, count))
        except (FileNotFoundError, ValueError) as error:
            raise LookupError(f"{self.paths.root / name}, byte {offset}: {error}") from error

    def _completed(self, row: Json) -> Json:
        """A row that gave way to its length, with the values of its text line."""
        try:
            text = self._text(row.get("text"))
        except LookupError:
            return row
        return {key: value for key, value in text.items() if key in _INDEX_FIELDS} | {
            "text": row["text"],
            "arr": row.get("arr"),
        }

    def _fixed(
        self, name: str, line_bytes: int, n0: int, n1: int | None, decode: Callable[[bytes], Json] = decode_object
    ) -> list[Json]:
        count = None if n1 is None else max(0, n1 - n0) * line_bytes
        try:
            data = self.paths.read(name, n0 * line_bytes, count)
        except FileNotFoundError:
            return []
        rows = []
        for start in range(0, len(data) - line_bytes + 1, line_bytes):
            try:
                rows.append(decode(data[start : start + line_bytes]))
            except (ValueError, msgspec.MsgspecError) as error:
                self._note(Damage(self.paths.root / name, n0 * line_bytes + start, str(error)))
        return rows

    @staticmethod
    def _count(path: Path, line_bytes: int) -> int:
        try:
            return path.lstat().st_size // line_bytes
        except FileNotFoundError:
            return 0

    def _noted(self, part: Slice) -> Slice:
        for damage in part.damaged:
            self._note(damage)
        return part

    def _note(self, damage: Damage) -> None:
        key = (damage.path.name, damage.offset)
        if key not in self._damage_seen and len(self.damaged) < MAX_DAMAGE:
            self._damage_seen.add(key)
            self.damaged.append(damage)


def _is_place(ref: Any) -> bool:
    """[segment, offset, bytes], each as a file can have it."""
    return isinstance(ref, list | tuple) and len(ref) == 3 and all(type(at) is int and 0 <= at < 1 << 53 for at in ref)


def _seq(event: Json) -> int:
    return int(event["seq"])


class _Growing:
    """Rows of one file, read once each; begun anew when the file is another one."""

    def __init__(self, name: str, containing: bytes = b"") -> None:
        self._name = name
        self._containing = containing
        self._cursor = Cursor()
        self._lock = Lock()  # a viewer's threads may ask at the same moment
        self.rows: list[Any] = []

    def refresh(self, paths: RunPaths, pick: Callable[[list[Json]], list[Any]] = list) -> Slice:
        with self._lock:
            return self._refresh(paths, pick)

    def _refresh(self, paths: RunPaths, pick: Callable[[list[Json]], list[Any]]) -> Slice:
        part = read_lines(paths, self._name, self._cursor, containing=self._containing)
        damaged = list(part.damaged)
        while True:
            if part.restarted:
                self.rows = []
            self.rows += pick(part.rows)
            self._cursor = part.cursor
            if not part.more:
                return Slice([], part.cursor, [], damaged=damaged)
            part = read_lines(paths, self._name, self._cursor, containing=self._containing)
            damaged += part.damaged


_INDEX_FIELDS = frozenset(
    "n cid attempt step iteration split seed group member try ver turns tok".split()
    + "R O sr je jo stop excl t wall".split()
)


@lru_cache(32)
def _partial(fields: tuple[str, ...]) -> Callable[[bytes], Json]:
    """A decoder of objects that passes over all other fields."""
    # No type checker knows a TypedDict whose fields are data.
    return msgspec.json.Decoder(TypedDict("Row", dict.fromkeys(fields, Any), total=False)).decode  # type: ignore[operator]


def _age_here(identity: ProcessId, status: Json) -> float:
    """Age of the heartbeat by the wall clock, which writer and reader share on one machine; 0 elsewhere."""
    heartbeat = status.get("heartbeat")
    if not identity.same_machine() or not isinstance(heartbeat, (int, float)):
        return 0.0
    return time.time() - heartbeat
