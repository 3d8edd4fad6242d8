"""Ray: the run's coordinator is a job of a cluster (Ray Jobs), and places its processes on the cluster's nodes."""

from __future__ import annotations

import json
import secrets
import shlex
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import rltui
from rltui.launch.base import Fact, Job, Launcher, LaunchError, Started
from rltui.launch.local import trainer_argv
from rltui.launch.ray_jobs import JobState, RayJobs, dashboard_of
from rltui.server.urls import without_user
from rltui.sources.base import Json
from rltui.sources.early import LOG, PROTOCOL, last_error, tail
from rltui.sources.local import LocalRunSource
from trainer.config.secrets import is_secret
from trainer.rundir.disk import replace_file
from trainer.rundir.layout import RunPaths, make_folder

RECORD = "ray.json"  # in the run's folder: {address, job, protocol_from}
LOOK_S = 3.0  # between two questions to the dashboard
PROBE_S = 12.0  # for the small job that looks for the folder
PROBE_LOOK_S = 0.5
NO_FOLDER = 73  # the entrypoint's exit code: the run's folder is not seen there
STOP_S = 120  # from a stop to a kill by Ray, in which a checkpoint can be written
SHARED = "give a --run-dir on a file system that the cluster's nodes see under the same path"
GOES_ALONG = ("RLTUI_", "TASK_APP_URL", "HF_HOME", "HF_HUB_OFFLINE")  # of the environment; secrets never


class RayLauncher(Launcher):
    outlives = True
    sets = ('compute.launcher="ray"',)

    def __init__(self, text: str) -> None:
        """Raises LaunchError where `text` is no Ray cluster."""
        self.name, self._jobs = text, RayJobs(dashboard_of(text))

    def shown(self, job: Job) -> str:
        return f"submit to {self._jobs.address}:\n{entrypoint(job)}"

    def start(self, job: Job) -> RayRun:
        paths = RunPaths(job.folder)
        try:
            make_folder(paths.root, parents=True)
            make_folder(paths.logs)
            for name in (LOG, PROTOCOL):
                (paths.root / name).touch(mode=0o600)
            protocol_from = (paths.root / PROTOCOL).stat().st_size
        except OSError as error:
            why = f"cannot start the run in {job.folder}: {error.strerror or error}"
            raise LaunchError(why, "give another --run-dir") from error
        submission_id = f"{job.job_id}-{job.key or secrets.token_hex(4)}"
        self._jobs.submit(submission_id, entrypoint(job), environment(job), {"rltui_job_id": job.job_id})
        record = {"address": without_user(self._jobs.address), "job": submission_id, "protocol_from": protocol_from}
        replace_file(paths, RECORD, json.dumps(record).encode())
        return RayRun(self._jobs, submission_id, job.folder, protocol_from)

    def facts(self, job: Job | None = None) -> list[Fact]:
        try:
            found = [Fact("reachable", True, f"Ray {self._jobs.version()} at {self._jobs.address}")]
        except LaunchError as error:
            return [Fact("reachable", False, str(error), error.hint)]
        if job is None:
            return found
        if kept := sorted(name for name in job.environ if name.endswith("_API_KEY")):
            text = f"{', '.join(kept)} stay here: Ray shows the environment of a job to whoever reaches its dashboard"
            found.append(Fact("keys", None, text, "keep the run's keys in the file of env_file_path"))
        return [*found, self._looks_for(job.folder)]

    def _looks_for(self, folder: Path) -> Fact:
        """A mark is written, and a small job looks for it."""
        name, there = "shared folder", next(path for path in (folder, *folder.parents) if path.is_dir())
        mark, probe = there / f".mark-{secrets.token_hex(8)}", f"rltui-look-{secrets.token_hex(4)}"
        try:
            mark.write_text(mark.name)
        except OSError as error:
            return Fact(name, False, f"{there} cannot be written: {error.strerror}", "give another --run-dir")
        try:
            self._jobs.submit(probe, f"test -r {shlex.quote(str(mark))} || exit {NO_FOLDER}", {}, {})
            found = self._end_of(probe)
        except LaunchError as error:
            return Fact(name, None, f"it could not be looked for: {error}", error.hint)
        finally:
            mark.unlink(missing_ok=True)
        if found is None:
            text = f"Ray has not started the small job that looks for {there} within {PROBE_S:g} s"
            return Fact(name, None, text, "the run looks for it again when it starts")
        if found.exit_code == NO_FOLDER:
            return Fact(name, False, f"{there} of this machine is not seen on the cluster", SHARED)
        if found.status != "SUCCEEDED":
            return Fact(name, None, f"the small job that looks for {there} failed: {found.message}")
        return Fact(name, True, f"{there} is seen on the cluster")

    def _end_of(self, probe: str) -> JobState | None:
        deadline = time.monotonic() + PROBE_S
        while time.monotonic() < deadline:
            state = self._jobs.state(probe)
            if state.over:
                with suppress(LaunchError):
                    self._jobs.forget(probe)
                return state
            time.sleep(PROBE_LOOK_S)
        with suppress(LaunchError):
            self._jobs.stop(probe)
        return None


class RayRun(Started):
    """A job of the cluster and the run in it. `look_s`: between two questions to the dashboard."""

    def __init__(
        self, jobs: RayJobs, submission_id: str, folder: Path, protocol_from: int = 0, *, look_s: float = LOOK_S
    ) -> None:
        self.submission_id, self._jobs, self._folder = submission_id, jobs, folder
        self._protocol_from, self._look_s, self._looked = protocol_from, look_s, -look_s
        self._state: JobState | None = None
        self.where = f"Ray job {submission_id} at {jobs.address}"
        self.source: LocalRunSource = RaySource(folder, self)

    def state(self) -> JobState | None:
        """What the dashboard said last; None: nothing yet."""
        known = self._state is not None and self._state.over
        if not known and time.monotonic() - self._looked >= self._look_s:
            with suppress(LaunchError):
                self._state = self._jobs.state(self.submission_id)
            self._looked = time.monotonic()
        return self._state

    def exit_code(self) -> int | None:
        found = self.state()
        if found is None or not found.over:
            return None
        if found.exit_code is not None:
            return found.exit_code if found.exit_code >= 0 else 128 - found.exit_code
        return {"SUCCEEDED": 0, "STOPPED": 130}.get(found.status, 3)

    def last_words(self) -> tuple[str, str | None]:
        paths, found = RunPaths(self._folder), self.state()
        error = last_error(paths, self._protocol_from)
        if error is not None:
            return str(error["message"]), error["hint"]
        if found is not None and found.exit_code == NO_FOLDER:
            return f"{self._folder}, the config or {Path.cwd()} is not seen on the cluster", SHARED
        lines = [line for line in tail(paths, LOG) if line.strip()]
        if not lines and found is not None:
            lines = [line for line in found.message.splitlines() if line.strip()]
        cause = f": {lines[-1].strip()}" if lines else ""
        status = found.status.lower() if found is not None else "gone"
        return f"the {self.where} is {status}{cause}", f"read {self._folder / LOG}; `ray job logs {self.submission_id}`"

    def lost(self, status: Json) -> Json:
        """The status of a run whose job is over, and whose coordinator did not come to say how it ended."""
        message, hint = self.last_words()
        hint = "; ".join(part for part in (hint, "it can be resumed from a checkpoint") if part)
        error = {"code": "process_lost", "message": message, "hint": hint}
        return {**status, "state": "failed", "phase": "done", "end_reason": "error", "error": error, "silent": False}

    def waiting(self) -> str:
        found = self.state()
        if found is None:
            return f"the Ray dashboard at {self._jobs.address} gives no answer"
        return f"{self.where} is pending" if found.status == "PENDING" else ""

    def stop(self) -> None:
        with suppress(LaunchError):
            self._jobs.stop(self.submission_id)
        self._looked = -self._look_s

    def kill(self) -> None:
        with suppress(OSError, ValueError):
            self.source.request("kill")  # so that the run says that it was killed
        self.stop()


class RaySource(LocalRunSource):
    """A run whose coordinator is a job of a cluster: where it gives no sign of life, the dashboard knows its end."""

    def __init__(self, folder: Path, run: RayRun) -> None:
        super().__init__(folder)
        self._run = run

    def status(self) -> Json | None:
        status = super().status()
        found = self._run.state() if status is not None and status.get("silent") else None
        return self._run.lost(status) if status is not None and found is not None and found.over else status


def adopted(folder: Path) -> RayRun | None:
    """The Ray job of a run's folder; None: it was not started by Ray."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        record = json.loads(RunPaths(folder).read(RECORD))
        return RayRun(RayJobs(str(record["address"])), str(record["job"]), folder, int(record["protocol_from"]))
    return None


def entrypoint(job: Job) -> str:
    """What Ray gives to a shell on the cluster. The run's folders are looked for first; the interpreter is ours where
    the cluster has it at the same path, else the first one there."""
    config, here = job.config.absolute(), Path.cwd()
    run, words = shlex.quote(str(job.folder)), trainer_argv(replace(job, config=config))
    python = " || ".join(f"command -v {name}" for name in (shlex.quote(sys.executable), "python", "python3"))
    seen = f"test -w {run}/logs && test -r {shlex.quote(str(config))} && cd {shlex.quote(str(here))}"
    unseen = f'echo "$(hostname) does not see the folders of this run" >&2; exit {NO_FOLDER}'
    return f'{seen} || {{ {unseen}; }}; exec "$({python})" {shlex.join(words[1:])} >> {run}/{PROTOCOL} 2>> {run}/{LOG}'


def environment(job: Job) -> dict[str, str]:
    """Of the job: Ray keeps it and shows it, so nothing secret is in it."""
    found = {
        name: value
        for name, value in job.environ.items()
        if name.startswith(GOES_ALONG) and not is_secret(name.removeprefix("RLTUI__"), value) and not _is_key(name)
    }
    found |= {"PYTHONSAFEPATH": "1", "RAY_JOB_STOP_WAIT_TIME_S": str(STOP_S)}
    home = Path(rltui.__file__).resolve().parent.parent
    if home.name not in ("site-packages", "dist-packages"):  # a checkout; what is installed may be for another Python
        found["PYTHONPATH"] = str(home)
    return found


def _is_key(name: str) -> bool:
    return name.endswith(("_KEY", "_TOKEN", "_SECRET", "_PASSWORD"))
