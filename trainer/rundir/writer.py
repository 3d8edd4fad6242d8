"""The one writer of a run.

Lines are appended whole, status is replaced, `seq` and `n` go on over attempts.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping
from typing import Any, Self

import msgspec
import numpy as np

from trainer.rollout.types import Branch
from trainer.rundir.disk import (
    SPARE_BYTES,
    AppendFile,
    Disk,
    DiskFull,
    Reserve,
    remove_half_written,
    replace_file,
    retry_with_reserve,
    sync_folder,
)
from trainer.rundir.fixed import index_line, update_line
from trainer.rundir.jsonl import Json, decode_object, encode, encode_line, iso
from trainer.rundir.layout import (
    INDEX_BYTES,
    TEXT_SEGMENT_BYTES,
    TOKEN_SEGMENT_BYTES,
    UPDATE_BYTES,
    RunPaths,
    text_segment,
    token_segment,
)
from trainer.rundir.process import ProcessId, process_fields
from trainer.rundir.records import EVENTS_WITH_STEP, TERMINAL_STATES, EpisodeRecord, GroupRecord, JudgeRecord
from trainer.rundir.segments import Segments
from trainer.rundir.status import RunStatus, begun, merged, with_latest
from trainer.rundir.textcut import encode_episode
from trainer.rundir.tokens import behaviour_arrays, encode_block

MAX_REPLY = 2_000
MAX_MESSAGE = 2_000
_METRIC_KEYS = {"attempt", "step", "iteration", "epoch", "time", "weight_version", "eval_step", "nonfinite"}


class RunWriter:
    """Writes all of a run folder but config, checkpoints, weights and logs; hold the `RunLock` meanwhile.

    On a full disk a record raises `DiskFull` and leaves nothing behind; the reserve is then given up,
    `status` and `event` still work, every other record is refused until `recover()` is True.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        job_id: str,
        label: str,
        attempt: int = 1,
        checkpoint_dir: str | os.PathLike[str] | None = None,
        identity: ProcessId | None = None,
        disk: Disk | None = None,
        clock: Callable[[], float] | None = None,
        text_segment_bytes: int = TEXT_SEGMENT_BYTES,
        token_segment_bytes: int = TOKEN_SEGMENT_BYTES,
    ) -> None:
        self.paths = RunPaths(root)
        self.attempt = attempt
        self.job_id = job_id
        self.disk_full = False
        self._disk = disk or Disk()
        self._clock, self._steady = clock or time.time, clock or time.monotonic  # the wall clock may jump
        self.paths.create(checkpoint_dir, job_id)
        remove_half_written(self.paths.root)
        self._reserve = Reserve(self.paths, self._disk)
        if not self._reserve.take():
            self._give_up_reserve()

        self._events = self._lines("events.jsonl")
        self._metrics = self._lines("metrics.jsonl")
        self._judge = self._lines("judge.jsonl")
        self._groups = self._lines("rollouts/groups.jsonl")
        self._index = self._rows("rollouts/index.jsonl", INDEX_BYTES)
        self._updates = self._rows("rollouts/updates.jsonl", UPDATE_BYTES)
        self._text = Segments(self.paths, self._disk, self._append, text_segment, text_segment_bytes, lines=True)
        self._tokens = Segments(self.paths, self._disk, self._append, token_segment, token_segment_bytes, lines=False)
        for folder in (self.paths.rollouts, self.paths.root):
            sync_folder(folder)

        self._seq = _last_seq(self._events)
        self.next_n = self._index.size // INDEX_BYTES
        self._started = self._steady()
        self.document = self._first_status(job_id, label, identity or ProcessId.current())
        self._earlier_s = self.document.elapsed_s

    # Events and metrics

    @property
    def last_seq(self) -> int:
        return self._seq

    def event(self, type_: str, message: str, *, step: int, level: str = "info", **data: Any) -> int:
        """Append an event and give its `seq`.

        `data` is its data. Works on a full disk as long as the reserve lasts.
        """
        now = iso(self._clock())
        if type_ in EVENTS_WITH_STEP:
            data = {"step": step, **data}
        line = {
            "seq": self._seq + 1,
            "attempt": self.attempt,
            "step": step,
            "type": type_,
            "event_type": type_,
            "level": level,
            "message": _one_line(message),
            "data": data,
            "job_id": self.job_id,
            "created_at": now,
            "timestamp": now,
        }
        encoded = encode_line(line)
        retry_with_reserve(lambda: self._events.append(encoded), self._give_up_reserve)
        self._seq += 1
        return self._seq

    def metrics(
        self,
        values: Mapping[str, float],
        *,
        step: int,
        iteration: int,
        epoch: int,
        weight_version: int,
        eval_step: int | None = None,
    ) -> None:
        """One line of metrics.jsonl; values that are not finite are left out and named in `nonfinite`.

        They also become the `latest` of the status document, which is written with the next beat.
        ValueError: a name that the line needs for itself.
        """
        if taken := _METRIC_KEYS & values.keys():
            raise ValueError(f"a metric cannot be called {', '.join(sorted(taken))}")
        numbers = {name: _number(value) for name, value in values.items()}
        finite = {name: value for name, value in numbers.items() if math.isfinite(value)}
        line: Json = {
            "attempt": self.attempt,
            "step": step,
            "iteration": iteration,
            "epoch": epoch,
            "time": round(self._clock(), 3),
            "weight_version": weight_version,
        }
        if eval_step is not None:
            line["eval_step"] = eval_step
        line.update(finite)
        if len(finite) < len(numbers):
            line["nonfinite"] = [name for name in numbers if name not in finite]
        self._append(self._metrics, encode_line(line))
        with_latest(self.document, finite)

    # Episodes

    def episode(self, record: EpisodeRecord) -> int:
        """Token blocks, text line, index line, in this order; gives the row. All of it is written or nothing.

        ValueError: branches whose arrays differ in length.
        """
        n = self.next_n
        before = self._text.position(), self._tokens.position()
        try:
            branches = [self._branch(n, number, branch) for number, branch in enumerate(record.branches)]
            arr = branches[0]["arr"] if branches else None
            fields = record.index_fields(n, self.attempt, record.t or self._clock())
            text = fields | {
                "arr": arr,
                "turns": msgspec.to_builtins(record.turns, enc_hook=lambda value: value),
                "rewards": record.rewards,
                "judge": record.judge,
                "branches": branches,
                "exclusion": msgspec.to_builtins(record.exclusion),
                "tries": record.tries,
                "sampling": record.sampling,
                "forced": record.forced,
                "warnings": record.warnings,
                "app": record.app,
                "timings": record.timings,
                **record.extra,
            }
            place = self._text.append(encode_episode(text) + b"\n")
            self._append(self._index, index_line(fields | {"text": place, "arr": arr}))
        except BaseException:
            self._text.cut_back(before[0])
            self._tokens.cut_back(before[1])
            raise
        self.next_n = n + 1
        return n

    def _branch(self, n: int, number: int, branch: Branch) -> Json:
        arrays = behaviour_arrays(branch)
        return {
            "weight": branch.weight,
            "tokens": len(branch.ids),
            "sampled": int(arrays["mask"].sum()),
            "first_turn": branch.first_turn,
            "spans": msgspec.to_builtins(branch.spans),
            "prefix": branch.prefix,
            "arr": self._tokens.append(encode_block(n, number, self.attempt, arrays)),
        }

    def update(self, n: int, *, step: int, iteration: int, kind: str, **fields: Any) -> None:
        """What became known of episode `n` later: kind group, use or mask."""
        line = {"n": n, "attempt": self.attempt, "step": step, "iteration": iteration, "kind": kind, **fields}
        self._append(self._updates, update_line(line))

    def learner_block(self, n: int, branch: int, arrays: Mapping[str, np.ndarray]) -> list[int]:
        """A block of the learner's arrays [tokens].

        Gives [segment, offset, bytes] for the `arr` of a `use` line.
        """
        return self._tokens.append(encode_block(n, branch, self.attempt, arrays))

    def group(self, record: GroupRecord) -> None:
        line = {"attempt": self.attempt} | msgspec.to_builtins(record)
        line["t"] = self._clock() if record.t is None else record.t
        self._append(self._groups, encode_line(line))

    def judge(self, record: JudgeRecord) -> int:
        """One judge call; gives the byte of its line, which `judge.calls` of the episode names."""
        line = {"attempt": self.attempt} | msgspec.to_builtins(record)
        line["reply"] = record.reply[:MAX_REPLY]
        return self._append(self._judge, encode_line(line))

    # Status and documents

    def note(self, **changes: Any) -> None:
        """Change the status document; it is written with the next `status()`, `beat()` or `flush()`."""
        self.document = merged(self.document, changes)

    def status(self, **changes: Any) -> None:
        """Change the status document and replace the file.

        Before a terminal state all records are fsynced.
        """
        self.note(**changes)
        if self.document.state in TERMINAL_STATES:
            if self.document.finished_at is None:
                self.document.finished_at = iso(self._clock())
            try:
                self.sync()
            except DiskFull:
                pass  # the run ends all the same, and has to say so
        self.flush()

    def beat(self) -> None:
        """The sign of life, every 2 s."""
        self.document.beat += 1
        self.document.heartbeat = self._clock()
        self.flush()

    def flush(self) -> None:
        """Write the status document as it stands (records are never buffered)."""
        self.document.updated_at = iso(self._clock())
        self.document.elapsed_s = round(self._earlier_s + self._steady() - self._started, 3)
        self._replace("status.json", self.document)

    def resolved(self, document: Any) -> None:
        """resolved.json of this attempt; the one of an earlier attempt stays as `resolved.A.json`."""
        self._keep_earlier("resolved.json")
        self._replace("resolved.json", document)

    def environment(self, document: Mapping[str, Any]) -> None:
        """environment.json of this attempt, likewise; `attempt` and `created_at` are filled in."""
        self._keep_earlier("environment.json")
        self._replace("environment.json", {"attempt": self.attempt, "created_at": iso(self._clock()), **document})

    def _keep_earlier(self, name: str) -> None:
        kept = name.replace(".json", f".{self.attempt - 1}.json")
        current = self.paths.root / name
        if self.attempt > 1 and current.is_file() and not os.path.lexists(self.paths.root / kept):
            self._replace_bytes(kept, self.paths.read(name))  # a copy: a crash right after it must leave both

    def _replace(self, name: str, document: Any) -> None:
        self._replace_bytes(name, encode(document) + b"\n")

    def _replace_bytes(self, name: str, data: bytes) -> None:
        retry_with_reserve(lambda: replace_file(self.paths, name, data, self._disk), self._give_up_reserve)

    def _first_status(self, job_id: str, label: str, identity: ProcessId) -> RunStatus:
        """The document of the last attempt, freed of what ended with it; a fresh one if there is none."""
        now = iso(self._clock())
        blank = RunStatus(job_id=job_id, label=label, attempt=self.attempt, created_at=now, **process_fields(identity))
        try:
            last = msgspec.convert(decode_object(self.paths.read("status.json")), RunStatus)
        except (OSError, ValueError):
            last = blank
        return begun(last, blank)

    # Room and time

    def sync(self) -> None:
        """fsync every file written since the last call.

        Once a second, before a STABLE, before a terminal status.
        """
        for file in self._files():
            try:
                file.sync()
            except DiskFull:
                self._give_up_reserve()
                raise

    def recover(self) -> bool:
        """After DiskFull: True once the reserve is back, with room besides, and records are taken again."""
        if self.disk_full and self._reserve.take(SPARE_BYTES):
            self.disk_full = False
        return not self.disk_full

    def close(self) -> None:
        """fsync and close; an open reserve file is removed, the run no longer needs the room."""
        if self._events.closed:
            return
        try:
            self.sync()
        finally:
            for file in self._files():
                file.close()
            self._reserve.give_up()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _files(self) -> list[AppendFile]:
        files = [self._text.file, self._tokens.file, self._index, self._updates, self._groups]
        return [*files, self._judge, self._metrics, self._events]

    def _append(self, file: AppendFile, data: bytes) -> int:
        if self.disk_full:
            raise DiskFull(file.path)
        try:
            return file.append(data)
        except DiskFull:
            self._give_up_reserve()
            raise

    def _give_up_reserve(self) -> None:
        self.disk_full = True
        self._reserve.give_up()

    def _lines(self, name: str) -> AppendFile:
        file = AppendFile(self.paths, name, self._disk)
        file.cut_torn_line()
        return file

    def _rows(self, name: str, line_bytes: int) -> AppendFile:
        file = AppendFile(self.paths, name, self._disk)
        file.cut_to_multiple(line_bytes)
        return file


def _last_seq(events: AppendFile) -> int:
    """Seq of the last event that can be read."""
    end = events.size
    tail = b""
    while end > 0:
        start = max(0, end - (1 << 16))
        tail = events.read(start, end) + tail
        end = start
        for line in reversed(tail.split(b"\n")[0 if start == 0 else 1 :]):
            try:
                return int(decode_object(line)["seq"])
            except (ValueError, KeyError, TypeError):
                continue
    return 0


def _one_line(text: str) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[:MAX_MESSAGE]


def _number(value: Any) -> float | int:
    value = value.item() if hasattr(value, "item") else value
    return value if isinstance(value, int) and not isinstance(value, bool) else float(value)
