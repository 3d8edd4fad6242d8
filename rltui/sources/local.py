"""A run in a directory of this file system."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from rltui.model.shape import EVENT, GROUP, STATUS, fitting
from rltui.processes import kill_leader
from rltui.sources.base import LOG_BYTES, TERMINAL, UPDATE_FIELDS, Json, LogSlice, RunSource, Slice, Unreadable
from rltui.sources.early import early_end
from trainer.rundir import control, logread
from trainer.rundir.checkpoints import list_checkpoints
from trainer.rundir.jsonl import decode_object
from trainer.rundir.lines import Cursor
from trainer.rundir.lines import Slice as Lines
from trainer.rundir.process import ProcessId
from trainer.rundir.reader import ROW_FIELDS, RunReader

INDEX_ROWS = 4_000  # decoded at a time: 2 MB


class Seen(NamedTuple):
    """How far a stream was read, and how many resumes were known then."""

    file: Cursor
    resumes: int


class Sought(NamedTuple):
    """The search for rows that no longer count: with so many resumes known, all from row `below` on are done."""

    resumes: int
    below: int


class LocalRunSource(RunSource):
    """A run whose folder lies on this machine."""

    verbs = frozenset({"pause", "resume", "stop", "kill", "checkpoint", "evaluate", "set"})

    def __init__(self, folder: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.place = str(folder)
        self._folder = folder
        self._reader = RunReader(folder, clock=clock)
        self._clock = clock
        self._answered = clock()  # when the status could be read last
        self._answers: dict[str, Json] = {}
        self._answers_cursor: Cursor | None = None
        self._killed: ProcessId | None = None  # a coordinator that we know to be gone
        self._there = os.path.isdir(folder)  # its folder was there once
        self._seen = False  # its status was there once
        self._recorded = 0  # episodes

    def age(self) -> float:
        return self._clock() - self._answered

    def status(self) -> Json | None:
        self._there = self._there or os.path.isdir(self._folder)
        with self._reading("status.json"):
            status = self._reader.status()
            if status is None and self._reader.paths.status.exists():
                status = self._reader.status()  # it may have come between the two looks
                if status is None:
                    raise Unreadable("status.json is damaged: it is not a JSON object")
            status = status and fitting(status, STATUS)
            if status is not None and status.get("state") is None:
                raise Unreadable("status.json is damaged: its state is not a word")
        self._answered = self._clock()
        if status is None:
            if self._seen:
                raise Unreadable(f"{self._folder} has no status.json any more: was the run moved or deleted?")
            end = early_end(self._reader.paths)
            return end and fitting(end, STATUS)
        self._seen = True
        if status.get("state") in TERMINAL:
            return status
        liveness = self._reader.liveness(status)
        if liveness == "dead" or (self._killed is not None and _identity(status) == self._killed):
            return self._lost(status)
        return {**status, "silent": True} if liveness == "silent" else status

    def document(self, name: str) -> Json | None:
        if name not in ("resolved.json", "environment.json"):
            raise ValueError(f"{name!a} is no document of a run")
        with self._reading(name):
            try:
                return decode_object(self._reader.paths.read(name))
            except FileNotFoundError:
                return None

    def events(self, cursor: Any = None, limit: int = 1000) -> Slice:
        with self._reading("events.jsonl"):
            if cursor is not None and cursor < 0:
                cursor = max(0, self._reader.last_seq() + cursor)
            rows = self._reader.events(cursor or 0, limit)
        at = rows[-1]["seq"] if rows else cursor
        return Slice([fitting(row, EVENT) for row in rows], at, more=len(rows) == limit)

    def metrics(self, cursor: Any = None) -> Slice:
        return self._stream("metrics.jsonl", cursor)

    def groups(self, cursor: Any = None) -> Slice:
        part = self._stream("rollouts/groups.jsonl", cursor)
        return replace(part, rows=[fitting(row, GROUP) for row in part.rows])

    def judge(self, cursor: Any = None) -> Slice:
        with self._reading("judge.jsonl"):
            part = self._lines("judge.jsonl", cursor)
        return Slice(part.rows, part.cursor, part.more, -1 if part.restarted else None)

    def uses(self, cursor: Any = None) -> Slice:
        name = "rollouts/updates.jsonl"
        with self._reading(name):
            part = self._lines(name, cursor or self._reader.recent_updates(), containing=b'"kind":"use"')
            self._reader.resumes()
            rows = [row for row in part.rows if self._reader.counts(row)]
        return Slice(rows, part.cursor, part.more, -1 if part.restarted else None)

    def _stream(self, name: str, cursor: Seen | None, fields: tuple[str, ...] | None = None) -> Slice:
        with self._reading(name):
            part = self._lines(name, cursor and cursor.file, fields=fields)
            resumes = self._reader.resumes()  # after the lines: a resume is written before what follows it
        rewind = None
        if cursor is not None and len(resumes) > cursor.resumes:
            rewind = min(resume.from_step for resume in resumes[cursor.resumes :])
        if part.restarted:
            rewind = -1
        rows = [row for row in part.rows if self._reader.counts(row)] if resumes else part.rows
        return Slice(rows, Seen(part.cursor, len(resumes)), part.more, rewind)

    def _lines(self, name: str, cursor: Cursor | None, **options: Any) -> Lines:
        """A file that is gone takes nothing back: its lines are the last known."""
        part = self._reader.lines_after(name, cursor, **options)
        if part.restarted and not part.cursor.inode:
            raise _gone()
        return part

    def episode_count(self) -> int:
        with self._reading("rollouts/index.jsonl"):
            count = self._reader.episode_count()
            if not count and self._recorded and not self._reader.paths.index.exists():
                raise _gone()
        self._recorded = count
        return count

    def index(self, n0: int, n1: int, fields: Sequence[str] | None = None) -> list[Json]:
        with self._reading("rollouts/index.jsonl"):
            resumed = self._reader.resumes()
            if fields is None:
                rows = self._reader.index(n0, n1)
            else:
                rows = self._reader.index_fields((*ROW_FIELDS, *fields), n0, n1)
        rows = [row for row in rows if type(row.get("n")) is int and n0 <= row["n"] < n1]
        return [row for row in rows if self._counts(row)] if resumed else rows

    def _counts(self, row: Json) -> bool:
        with self._reading("rollouts/groups.jsonl"):
            return self._reader.row_counts(row)

    def dropped(self, cursor: Any = None) -> Slice:
        with self._reading("rollouts/index.jsonl"):
            resumes = len(self._reader.resumes())
            at = cursor or Sought(0, 0)
            if resumes > at.resumes:
                at = Sought(resumes, self._reader.episode_count())
            first = max(0, at.below - INDEX_ROWS)
            rows = self._reader.index_fields(ROW_FIELDS, first, at.below) if at.below else []
        ranges: list[list[int]] = []
        for row in rows:
            n = row.get("n")
            if type(n) is not int or not first <= n < at.below or self._counts(row):
                continue
            if ranges and ranges[-1][1] == n:
                ranges[-1][1] = n + 1
            else:
                ranges.append([n, n + 1])
        return Slice(ranges[::-1], Sought(resumes, first), more=first > 0)

    def episodes(self, split: str, iteration: int) -> list[Json]:
        found: list[Json] = []
        for n0 in range(0, self.episode_count(), INDEX_ROWS):
            part = self.index(n0, n0 + INDEX_ROWS, ("split", "iteration"))
            wanted = [row["n"] for row in part if row.get("split") == split and row.get("iteration") == iteration]
            if wanted:
                keep = set(wanted)
                found += [row for row in self.index(wanted[0], wanted[-1] + 1) if row["n"] in keep]
        return found

    def episode(self, n: int) -> Json | None:
        with self._reading(f"the text of episode {n}"):
            try:
                return self._reader.episode(n)
            except LookupError:
                return None

    def updates(self, n: int) -> Json:
        with self._reading("rollouts/updates.jsonl"):
            return self._reader.merged_updates(n)

    def update_lines(self, cursor: Any = None) -> Slice:
        return self._stream("rollouts/updates.jsonl", cursor, UPDATE_FIELDS)

    def said(self, n0: int, n1: int) -> list[tuple[int, str]]:
        from rltui.sources.texts import texts

        rows = self.index(n0, n1, ("text",))
        with self._reading("the texts of the episodes"):
            return texts(self._reader.paths, rows)

    def tokens(self, ref: Any) -> dict[str, list[float]] | None:
        from trainer.rundir.tokens import DamagedBlock, TokensRemoved

        with self._reading("the tokens of an episode"):
            try:
                return {name: found.tolist() for name, found in self._reader.token_block(ref).items()}
            except TokensRemoved:
                return None
            except DamagedBlock as error:
                where = "/".join(map(str, ref))
                raise Unreadable(f"at {where} there are no tokens of this run, or they are damaged: {error}") from error

    def vocabulary(self) -> Json | None:
        from rltui.sources.texts import tokenizer

        with self._reading("environment.json"):
            folders = [Path(checkpoint.path) for checkpoint in self._reader.checkpoints()]
        model = (self.document("environment.json") or {}).get("model")
        with self._reading("tokenizer.json"):
            return tokenizer(folders[::-1], model if isinstance(model, dict) else {})

    def checkpoints(self) -> list[Json]:
        with self._reading("checkpoints"):
            found = self._reader.checkpoints()
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
            for checkpoint in found
        ]

    def logs(self) -> list[Json]:
        with self._reading("logs"):
            found = logread.list_logs(self._reader.paths)
        return [
            {"name": name, "bytes": sum(piece.size for piece in pieces), "files": len(pieces)}
            for name, pieces in found.items()
        ]

    def log(self, name: str, cursor: Any = None, limit_bytes: int = LOG_BYTES, *, tail: bool = False) -> LogSlice:
        read = logread.read_back if tail else logread.read_forward
        with self._reading(f"logs/{name}"):
            found = read(self._reader.paths, name, cursor, limit_bytes)
        return LogSlice(
            [line.decode("utf-8", "replace") for line in found.lines],
            found.end,
            more=found.before if tail else found.after,
            back=found.start if found.before else None,
            unfinished=found.unfinished.decode("utf-8", "replace"),
        )

    def request(self, action: str, args: Json | None = None) -> str:
        return control.ask(self._folder, action, args, client="rltui")

    def answer(self, control_id: str) -> Json | None:
        more = True
        while more:
            with self._reading("events.jsonl"):
                part = self._reader.lines_after("events.jsonl", self._answers_cursor, containing=b"rl.control.")
            self._answers_cursor, more = part.cursor, part.more
            for event in part.rows:
                if str(event.get("type")).startswith("rl.control.") and isinstance(event.get("data"), dict):
                    self._answers[str(event["data"].get("control_id"))] = event
        return self._answers.get(control_id)

    def kill(self) -> None:
        status = self._reader.status() or {}
        leader = _identity(status)
        if leader is None or not leader.same_machine():
            return
        children = [_identity({**status, **child}) for child in fitting(status, STATUS).get("children") or []]
        kill_leader(leader, [child for child in children if child is not None])
        if not leader.alive():
            self._killed = leader

    @contextmanager
    def _reading(self, what: str) -> Iterator[None]:
        """Every read goes through here: one that fails says what could not be read, and so does one of a run that is
        gone, where every file reads as empty."""
        try:
            yield
            if self._there and not os.path.isdir(self._folder):
                raise Unreadable(f"the run is gone: was {self._folder} moved or deleted?")
        except OSError as error:
            raise Unreadable(f"{what} cannot be read: {error.strerror or error}") from error
        except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
            # JSON, but of the wrong shape.
            raise Unreadable(f"{what} is damaged: {type(error).__name__}: {error}") from error

    def _lost(self, status: Json) -> Json:
        with self._reading("checkpoints"):
            found = list_checkpoints(self._reader.paths.checkpoints)
        if any(checkpoint.resumable for checkpoint in found):
            remedy = f"Go on from its last checkpoint: rltui train --resume {self._folder}"
        else:
            remedy = f"It has no checkpoint to go on from: start it anew: rltui train {self._folder}/config.toml"
        error = {
            "code": "process_lost",
            "message": f"the run's coordinator (pid {status.get('pid')}) ended without a word",
            "hint": f"{self._folder}/logs tells what it did last; what it recorded stays. {remedy}",
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


def _gone() -> OSError:
    return FileNotFoundError(errno.ENOENT, "it is gone: was the run moved or deleted?")


def _identity(document: Json) -> ProcessId | None:
    try:
        return msgspec.convert(
            {name: document.get(name) for name in ("pid", "start_time", "host", "boot_id")}, ProcessId
        )
    except msgspec.ValidationError:
        return None
