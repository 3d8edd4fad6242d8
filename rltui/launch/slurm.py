"""Slurm: the run's coordinator is a batch job. Requeued, it goes on with the run (slurm_script.py)."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from rltui.launch.base import Fact, Job, Launcher, LaunchError, Started
from rltui.launch.slurm_commands import FORGOTTEN, NO_ANSWER, command, job_state, no_answer, sbatch
from rltui.launch.slurm_relied import missing
from rltui.launch.slurm_script import NO_FOLDER, OUTPUT, SCRIPT, Request, script
from rltui.launch.slurm_states import NO_OUTPUT, JobState, ended, waits
from rltui.sources.base import Json
from rltui.sources.early import LOG, PROTOCOL, last_error, tail
from rltui.sources.local import LocalRunSource
from rltui.text import clean
from trainer.rundir.layout import RunPaths, make_folder

if TYPE_CHECKING:
    from trainer.config import Loaded

RECORD = "slurm.json"  # in the run's folder: {job, protocol_from}
LOOK_S = 3.0  # between two questions to Slurm's controller
SHARED = "the nodes have to see it under the same path; the job looks for it when it starts"
LOCAL_DISKS = ("ext2", "ext3", "ext4", "xfs", "btrfs", "tmpfs", "overlay", "zfs")


class SlurmLauncher(Launcher):
    name = "slurm"
    outlives = scripted = True
    sets = ('compute.launcher="slurm"',)

    def shown(self, job: Job) -> str:
        return self._own(job) if self.edited is None else self.edited

    def _own(self, job: Job) -> str:
        loaded, attempt = _config(job)
        return script(job, request_of(loaded), attempt=attempt)

    def start(self, job: Job) -> SlurmRun:
        paths, text = RunPaths(job.folder), self.shown(job)
        if self.edited is not None and (gone := [item for item in missing(self._own(job), text) if item.needed]):
            raise LaunchError(f"the edited script cannot start the run: {gone[0].text}", gone[0].fix, refused=True)
        sbatch("--test-only", text, job.environ)
        try:
            make_folder(paths.root, parents=True)
            make_folder(paths.logs)
            os.close(paths.open(OUTPUT, os.O_WRONLY | os.O_APPEND | os.O_CREAT))  # Slurm would make it for all to read
            protocol_from = _size(paths, PROTOCOL)
            _replace(paths, SCRIPT, text.encode())
            if not job.resume:
                _wait_in_queue(job)
        except OSError as error:
            why = f"cannot submit the run in {job.folder}: {error.strerror or error}"
            raise LaunchError(why, "give another --run-dir") from error
        try:
            number = sbatch("--parsable", text, job.environ)[0].strip().partition(";")[0]
        except LaunchError as error:
            _end_of_wait(job.folder, {"code": "slurm", "message": str(error), "hint": error.hint})
            raise
        _replace(paths, RECORD, json.dumps({"job": number, "protocol_from": protocol_from}).encode())
        return SlurmRun(number, job.folder, protocol_from)

    def facts(self, job: Job | None = None) -> list[Fact]:
        if why := no_answer():
            return [Fact("reachable", False, why, NO_ANSWER)]
        found = [Fact("reachable", True, "Slurm answers")]
        if job is None:
            return found
        kind = _file_system(job.folder)
        local = f"; {kind} is mostly a disk of one machine" if kind in LOCAL_DISKS else ""
        fix = "give a --run-dir on a shared file system" if local else ""
        found.append(Fact("shared folder", None if local else True, f"{job.folder}: {SHARED}{local}", fix))
        try:
            if self.edited is not None and (gone := missing(self._own(job), self.edited)):
                lost = "; ".join(item.text for item in gone if item.needed == gone[0].needed)
                found.insert(1, Fact("edited script", False if gone[0].needed else None, lost, gone[0].fix))
            found.append(Fact("queue", True, sbatch("--test-only", self.shown(job), job.environ)[1]))
        except LaunchError as error:
            found.append(Fact("queue", False, str(error), error.hint))
        return found


class SlurmRun(Started):
    """A batch job and the run in it. `look_s`: between two questions to the controller."""

    def __init__(self, number: str, folder: Path, protocol_from: int = 0, *, look_s: float = LOOK_S) -> None:
        self.number, self._folder, self._protocol_from, self._look_s = number, folder, protocol_from, look_s
        self.where = f"Slurm job {number}"
        self.source = SlurmSource(folder, self)
        self._state: JobState | None = None
        self._looked = -look_s

    def state(self) -> JobState | None:
        """What the controller said last; None: nothing yet."""
        known = self._state is not None and self._state.over
        if not known and time.monotonic() - self._looked >= self._look_s:
            self._state = job_state(self.number) or self._state
            self._looked = time.monotonic()
            if self._state is not None and self._state.over:
                self._settle(self._state)
        return self._state

    def exit_code(self) -> int | None:
        found = self.state()
        if found is None or not found.over:
            return None
        if found.exit_code:
            return found.exit_code if found.exit_code > 0 else 128 - found.exit_code
        return 0 if found.state == "COMPLETED" else 3

    def waiting(self) -> str:
        found = self.state()
        if found is None:
            return f"{self.where}: Slurm's controller gives no answer"
        if found.state == "PENDING":
            return f"{self.where}: {waits(found)}"
        return f"{self.where} is {found.state.lower()} on {found.nodes}" if found.nodes else self.where

    def last_words(self) -> tuple[str, str | None]:
        error = last_error(RunPaths(self._folder), self._protocol_from)
        if error is not None:
            return str(error["message"]), error["hint"]
        return self._fate(self.state() or FORGOTTEN)

    def _fate(self, found: JobState) -> tuple[str, str]:
        if found.exit_code in (NO_FOLDER, -NO_OUTPUT):
            return f"the node {found.nodes} does not see {self._folder}", "give a --run-dir that all nodes share"
        lines = [line for name in (OUTPUT, LOG) for line in tail(RunPaths(self._folder), name) if line.strip()]
        told = f": {lines[-1].strip()}" if lines and found.state in ("FAILED", "OUT_OF_MEMORY") else ""
        words = "is not known to Slurm any more" if found is FORGOTTEN else ended(found)
        return clean(f"{self.where} {words}{told}", 600), f"read {self._folder / OUTPUT} and {self._folder / LOG}"

    def lost(self, status: Json) -> Json:
        """The status of a run whose job is over, and whose coordinator did not come to say how it ended."""
        message, hint = self._fate(self.state() or FORGOTTEN)
        error = {"code": "process_lost", "message": message, "hint": f"{hint}; it can be resumed from a checkpoint"}
        return {**status, "state": "failed", "phase": "done", "end_reason": "error", "error": error, "silent": False}

    def stop(self) -> None:
        """A job that waits is cancelled; a coordinator that is there gets an interrupt, which is no preemption."""
        command("scancel", "--state=PENDING", self.number)
        command("scancel", "--batch", "--signal=INT", self.number)
        self._looked = -self._look_s

    def kill(self) -> None:
        with suppress(OSError):
            LocalRunSource(self._folder).request("kill")  # so that the run says it was killed
        command("scancel", self.number)
        self._looked = -self._look_s

    def _settle(self, found: JobState) -> None:
        message, hint = self._fate(found)
        error = {"code": "slurm", "message": message, "hint": hint}
        _end_of_wait(self._folder, None if found.state == "CANCELLED" else error)


class SlurmSource(LocalRunSource):
    """A run whose coordinator is a batch job: preempted, it is not over, but waits in the queue."""

    def __init__(self, folder: Path, run: SlurmRun, *, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(folder, clock=clock)
        self._run = run

    def status(self) -> Json | None:
        status = super().status()
        silent = status is not None and status.get("silent")
        queued = status is not None and (status.get("state") == "queued" or status.get("end_reason") == "preempted")
        found = self._run.state() if silent or queued else None
        if status is None or found is None:
            return status
        if silent:
            return self._run.lost(status) if found.over else status
        if found.over:
            return super().status()
        waiting = {"for": "queue", "on": self._run.waiting(), "since": None}
        return {**status, "state": "queued", "phase": "queued", "end_reason": None, "waiting": waiting}

    def request(self, action: str, args: Json | None = None) -> str:
        control_id = super().request(action, args)
        if action in ("stop", "kill"):
            command("scancel", "--state=PENDING", self._run.number)
        return control_id

    def kill(self) -> None:
        self._run.kill()


def adopted(folder: Path, *, look_s: float = LOOK_S) -> SlurmRun | None:
    """The batch job of a run's folder; None: it was not started by Slurm."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        record = json.loads(RunPaths(folder).read(RECORD))
        return SlurmRun(str(record["job"]), folder, int(record["protocol_from"]), look_s=look_s)
    return None


def request_of(loaded: Loaded) -> Request:
    compute = loaded.config.compute
    return Request(
        compute.nodes,
        0 if compute.topology.type == "cpu" else compute.gpu_count or 0,
        compute.gpu_type if loaded.origins["compute.gpu_type"].kind not in ("default", "derived") else None,
        compute.launcher_options,
    )


def _config(job: Job) -> tuple[Loaded, int]:
    """(the config as the coordinator will load it, the number of the attempt that begins). Raises LaunchError."""
    from trainer.config import ConfigError, load, load_text
    from trainer.config.toml_values import format_value
    from trainer.rundir.attempts import NoEarlierAttempt, read_earlier

    environ, unknown = job.environ, job.allow_unknown
    try:
        if not job.resume:
            return load(job.config, sets=job.sets, environ=environ, allow_unknown=unknown), 1
        earlier = read_earlier(job.folder)
        given = [*(f"{key}={format_value(value)}" for key, value in earlier.sets.items()), *job.sets]
        if job.config == earlier.paths.config:
            text, name = earlier.config_text, earlier.config_name
            loaded = load_text(text, name, sets=given, environ=environ, allow_unknown=unknown)
        else:
            loaded = load(job.config, sets=given, environ=environ, allow_unknown=unknown)
        return loaded, earlier.attempt + 1
    except (ConfigError, NoEarlierAttempt) as error:
        raise LaunchError(str(error), "mend the config", refused=True) from error


def _wait_in_queue(job: Job) -> None:
    """The record of a run that waits: the config as it is submitted, and a status."""
    from rltui.server import record
    from trainer.rundir import RunWriter

    loaded, _ = _config(job)
    label, folder = loaded.config.policy.label, loaded.config.checkpoint.dir
    with RunWriter(job.folder, job_id=job.job_id, label=label, checkpoint_dir=folder) as writer:
        _replace(writer.paths, "config.toml", job.config.read_bytes())
        record.waits(writer, loaded.resolved(), loaded.config.training.num_epochs)


def _end_of_wait(folder: Path, error: Json | None) -> None:
    """Of a run that no coordinator has begun, or will; another one is left alone. error: None: it was cancelled."""
    from rltui.server import record
    from trainer.rundir.attempts import waits as never_began
    from trainer.rundir.lock import RunLocked

    status = record.read_status(folder)
    if status is None or not never_began(folder):
        return
    about = folder, str(status["job_id"]), str(status["label"]), 1
    with suppress(RunLocked, OSError):
        if error is None:
            record.cancelled(*about, reason="stopped")
        else:
            record.failed(*about, error)


def _size(paths: RunPaths, name: str) -> int:
    """Bytes of a file, 0 where there is none."""
    path = paths.root / name
    return path.stat().st_size if path.exists() else 0


def _replace(paths: RunPaths, name: str, data: bytes) -> None:
    from trainer.rundir.disk import replace_file

    replace_file(paths, name, data)


def _file_system(folder: Path) -> str:
    """Its kind, as the kernel calls it; empty where that is not known."""
    path = os.path.realpath(folder)
    try:
        with open("/proc/self/mounts", encoding="utf-8", errors="replace") as file:
            mounts = [line.split() for line in file]
    except OSError:
        return ""
    held = [(len(at), kind) for _, at, kind, *_ in mounts if path == at or path.startswith(at.rstrip("/") + "/")]
    return max(held)[1] if held else ""
