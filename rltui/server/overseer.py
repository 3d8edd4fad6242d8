"""What goes on behind the requests: jobs start in their turn, their runs are followed, lost ones are ended on record.

Runs outlive the server (setsid). One that starts anew finds them by their folder, and their coordinator by pid and
start time; nothing of it depends on the server being there. All methods are called under `Jobs.lock`.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rltui.launch.base import Job, Launcher, LaunchError, Started
from rltui.processes import kill_leader
from rltui.server import record
from rltui.server.job import present, word
from rltui.server.keys import TASK_URL, UNREADABLE, keys_for
from rltui.server.slots import Places, startable
from rltui.server.submit import House
from rltui.server.table import BEGAN, ENDS, OVER, QUEUED, STARTED, STARTING, JobRow, Table
from rltui.sources.base import TERMINAL
from rltui.sources.early import last_error
from rltui.sources.local import LocalRunSource
from trainer.rundir import RunLocked, RunPaths, control
from trainer.rundir.jsonl import Json
from trainer.rundir.process import ProcessId, boot_id, host_name, start_time_of
from trainer.rundir.reader import SILENT_AFTER_S

log = logging.getLogger("rltui.server")

KEY_GONE = "the task app's key of this job went with the server that was restarted: keys are never stored"
POST_AGAIN = "post the job again, with its key and another Idempotency-Key"
LOST_HINT = "its logs tell what it did last; what it recorded stays, and resume goes on from its last checkpoint"


@dataclass
class _Followed:
    """What is known of a job besides its row, for as long as this server lives."""

    run: Started | None = None  # where this server started it
    asked: str | None = None  # how its end was asked for: graceful, now
    beat: tuple[Any, float] = (None, 0.0)  # the last one, and when it was first seen


@dataclass
class Overseer:
    table: Table
    house: House
    places: Places
    launcher: Launcher
    keys: dict[str, str]  # of task apps, by job; never written anywhere
    folder: Callable[[JobRow], Path]
    _followed: dict[str, _Followed] = field(default_factory=dict)

    # --- after a start of the server

    def take_up(self) -> None:
        """Jobs that were about to start when the last server ended: whether their coordinator is there decides."""
        for row in self.table.stages(STARTING):
            folder = self.folder(row)
            if row.pid is not None or present(row, folder).get("state") not in (None, "queued"):
                continue
            if record.waits_elsewhere(folder):
                continue
            if (found := _coordinator_of(row.job_id)) is not None:
                row.pid, row.start_time = found.pid, found.start_time
            else:
                row.stage, row.devices = QUEUED, []
            self.table.save(row)

    # --- one look, several times a second

    def look(self) -> None:
        for row in self.table.stages(STARTING, STARTED):
            try:
                self._follow(row)
            except Exception:  # the others go on, whatever one job does
                log.exception("a look at job %s failed", row.job_id)
        holding = self.table.stages(STARTING, STARTED)
        for row, devices in startable(self.places, holding, self.table.stages(QUEUED)):
            try:
                self.start(row, devices)
            except Exception as error:  # a fault of ours: told once, and not met again with each look
                log.exception("job %s could not be started", row.job_id)
                message = f"the server met a fault of its own as it started this job: {type(error).__name__}"
                self._fail(row, {"code": "internal", "message": message, "hint": "the server's log has the place"})

    def _follow(self, row: JobRow) -> None:
        folder = self.folder(row)
        status = present(row, folder)
        if status.get("state") == "queued":
            status = {}
        gone = self._is_gone(row, status)
        if gone and not folder.is_dir():  # somebody deleted the run
            self._over(row)
            return
        if gone:  # what it wrote last came before its end
            status = present(row, folder)
            status = {} if status.get("state") == "queued" else status
        if status and row.stage == STARTING:
            row.stage = STARTED
            self._change(row, "running", status)  # also one that was quicker than a look
        if (status.get("attempt") or 0) > row.attempt:  # somebody else resumed it
            row.attempt = status["attempt"]
            self.table.save(row)
        if status.get("state") in TERMINAL:
            self.told(row, status)
            if gone:
                self._over(row)
        elif gone:
            self._lost(row, status)
        elif row.cancel is not None:
            self._end(row, status)

    def _is_gone(self, row: JobRow, status: Json) -> bool:
        """Whether its coordinator is, beyond doubt, no longer there."""
        run = self._of(row).run
        if run is not None:
            return run.exit_code() is not None
        process = record.process_of(status) or _process(row)
        if process is None:  # a run of somebody else, whose status names no process, or whose folder is gone
            return status.get("state") in TERMINAL or not self.folder(row).is_dir()
        return process.alive() is False

    def told(self, row: JobRow, status: Json) -> None:
        """Puts a change of the job's word into the stream over all jobs."""
        self._change(row, word(row, status), status)

    def _change(self, row: JobRow, said: str, status: Json) -> None:
        if said == row.status:
            return
        row.status = said
        error = (status.get("error") or {}).get("message")
        times = {name: status.get(name) for name in ("started_at", "finished_at")}
        self.table.change(row, ENDS.get(said, BEGAN), message=f"{row.label} {said}", error=error, **times)

    def _over(self, row: JobRow) -> None:
        row.stage, row.devices, row.pid, row.start_time = OVER, [], None, None
        self.keys.pop(row.job_id, None)
        self._followed.pop(row.job_id, None)
        self.table.save(row)

    # --- starting

    def start(self, row: JobRow, devices: list[str]) -> None:
        folder = self.folder(row)
        key = self.keys.get(row.job_id)
        values = record.read_values(folder) or UNREADABLE
        if row.needs_key and key is None and "://" in str(values.get(TASK_URL)):
            hint = POST_AGAIN if row.attempt == 1 else "resume it with its key"
            self._fail(row, {"code": "task_app_key", "message": KEY_GONE, "hint": hint})
            return
        environ, lacks = keys_for(self.house.environ, values, key, self.house.trusted)
        for text in lacks:
            self._warn(row, "key_held_back", text)
        if row.placed and self.places.gpus:
            environ["CUDA_VISIBLE_DEVICES"] = ",".join(devices)
        if not self.house.allow_code:
            environ["RLTUI_ALLOW_CODE"] = "0"
        # On record first: a server that ends now must not start it a second time.
        row.stage, row.devices, row.pid, row.start_time = STARTING, devices, None, None
        self.table.save(row)
        job = Job(
            RunPaths(folder).config,
            folder,
            row.job_id,
            tuple(row.sets),
            allow_unknown=row.allow_unknown,
            resume=row.resume,
            from_step=row.from_step,
            environ=environ,
        )
        try:
            run = self.launcher.start(job)
        except LaunchError as error:
            self._fail(row, {"code": "not_started", "message": str(error), "hint": error.hint})
            return
        self._of(row).run = run
        if run.pid is not None:
            row.pid, row.start_time = run.pid, start_time_of(run.pid)
        self.table.save(row)

    # --- ending

    def _end(self, row: JobRow, status: Json) -> None:
        """Asks a run to end, in the way that it can be asked now; one that does not, or has no time to, is killed."""
        followed = self._of(row)
        beat = (status.get("pid"), status.get("beat"))
        if beat != followed.beat[0]:
            followed.beat = (beat, time.monotonic())
        silent = time.monotonic() - followed.beat[1] >= SILENT_AFTER_S
        how = "now" if silent and followed.asked == "graceful" else str(row.cancel)
        if followed.asked == how or (followed.asked == "now"):
            return
        if how == "now":
            self._kill(row, status)
        elif status:
            control.ask(self.folder(row), "stop", client="rltui serve", by=row.cancel_by)
        elif followed.run is not None:
            followed.run.stop()
        else:
            return  # it was started by an earlier server and is too young to be asked; soon it is not
        followed.asked = how

    def _kill(self, row: JobRow, status: Json) -> None:
        folder, run = self.folder(row), self._of(row).run
        if status:
            if not (process := record.process_of(status)) or not process.same_machine():
                _tolerant(lambda: control.ask(folder, "kill", client="rltui serve", by=row.cancel_by))
            kill: Callable[[], object] = LocalRunSource(folder).kill
        elif run is not None:
            kill = run.kill
        else:
            leader = _process(row)
            kill = (lambda: None) if leader is None else lambda: kill_leader(leader)
        # Up to ten seconds, in which others are served.
        threading.Thread(target=kill, name=f"kill {row.job_id}", daemon=True).start()

    def _lost(self, row: JobRow, status: Json) -> None:
        """Its coordinator ended without a word in the record: the server has the last one."""
        followed, paths = self._of(row), RunPaths(self.folder(row))
        if row.cancel is not None:
            reason = "stopped" if row.cancel == "graceful" and followed.asked != "now" else "killed"
            about = paths.root, row.job_id, row.label, row.attempt
            self._write(row, lambda: record.cancelled(*about, reason=reason, by=row.cancel_by))
            return
        message, hint = "the run's coordinator ended without a word", LOST_HINT
        code = "process_lost"
        if not status:
            if followed.run is not None:
                message, words = followed.run.last_words()
                hint = words or LOST_HINT
            if (error := last_error(paths)) is not None:
                message, hint = str(error["message"]), str(error["hint"] or LOST_HINT)
                code = str(error["code"] or code)
        self._fail(row, {"code": code, "message": message, "hint": hint})

    def _warn(self, row: JobRow, code: str, text: str) -> None:
        _tolerant(lambda: record.warn(self.folder(row), row.job_id, row.label, row.attempt, code, text))

    def _fail(self, row: JobRow, error: Json) -> None:
        self._write(row, lambda: record.failed(self.folder(row), row.job_id, row.label, row.attempt, error))

    def _write(self, row: JobRow, write: Callable[[], object]) -> None:
        """The last word of a job, by us."""
        try:
            write()
        except RunLocked as locked:
            self._held(row, locked)
            return
        except OSError:  # the folder is gone, or full: it is tried again with the next look
            if self.folder(row).is_dir():
                return
        self.told(row, present(row, self.folder(row)))
        self._over(row)

    def _held(self, row: JobRow, locked: RunLocked) -> None:
        """Somebody else has the run: `rltui train --resume` was quicker. It is followed as theirs."""
        followed, holder = self._of(row), locked.holder or {}
        followed.run = None
        row.pid, row.start_time = holder.get("pid"), holder.get("start_time")
        row.attempt = max(row.attempt, int(holder.get("attempt") or 0))
        self.table.save(row)

    def cancel_queued(self, row: JobRow, by: Any) -> None:
        self._write(
            row,
            lambda: record.cancelled(self.folder(row), row.job_id, row.label, row.attempt, reason="stopped", by=by),
        )

    def _of(self, row: JobRow) -> _Followed:
        return self._followed.setdefault(row.job_id, _Followed())


def _process(row: JobRow) -> ProcessId | None:
    """The coordinator that was started for it, before its status tells."""
    if row.pid is None or row.start_time is None:
        return None
    return ProcessId(pid=row.pid, start_time=row.start_time, host=host_name(), boot_id=boot_id())


def _coordinator_of(job_id: str) -> ProcessId | None:
    """The process of this user that was started as the coordinator of this job."""
    import psutil

    for process in psutil.process_iter():
        try:
            words = process.cmdline()
        except psutil.Error:
            continue
        if job_id in words and "--job-id" in words and "trainer" in words and process.pid != os.getpid():
            try:
                return ProcessId.of(process.pid)
            except ProcessLookupError:
                continue
    return None


def _tolerant(write: Callable[[], object]) -> None:
    """What may fail without harm: the run has a writer meanwhile, or its folder is full."""
    try:
        write()
    except (RunLocked, OSError):
        pass
