"""The coordinator as a process of this machine, in its own session, so that it outlives the terminal."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import BinaryIO

import rltui
from rltui.launch.base import Job, Launcher, LaunchError, Started
from rltui.processes import kill_leader
from rltui.sources.early import LOG, PROTOCOL, last_error, tail
from rltui.sources.local import LocalRunSource
from trainer.rundir.layout import RunPaths, make_folder
from trainer.rundir.process import ProcessId

LITTLE_ROOM = 4096  # bytes free, under which the coordinator could not even say why it ended


class LocalLauncher(Launcher):
    name = "local"

    def shown(self, job: Job) -> str:
        return shlex.join(trainer_argv(job))

    def start(self, job: Job) -> LocalRun:
        paths = RunPaths(job.folder)
        try:
            make_folder(paths.root, parents=True)
            make_folder(paths.logs)
            with _append(paths, PROTOCOL) as out, _append(paths, LOG) as err:
                offsets = out.seek(0, os.SEEK_END), err.seek(0, os.SEEK_END)
                process = subprocess.Popen(
                    trainer_argv(job),
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                    env=environment(job),
                    start_new_session=True,
                )
        except OSError as error:
            why = f"cannot start the run in {job.folder}: {error.strerror or error}"
            raise LaunchError(why, "give another --run-dir", refused=True) from error
        return LocalRun(process, paths, *offsets)


def trainer_argv(job: Job) -> list[str]:
    """The command that is the run's coordinator, on a machine that has this very environment."""
    # -P: a folder named `trainer` where the user happens to stand must not shadow ours
    argv = [sys.executable, "-P", "-m", "trainer", "run", str(job.config)]
    argv += ["--run-dir", str(job.folder), "--job-id", job.job_id]
    for item in job.sets:
        argv += ["--set", item]
    if job.allow_unknown:
        argv.append("--allow-unknown")
    if job.resume:
        argv.append("--resume")
    if job.from_step is not None:
        argv += ["--from", str(job.from_step)]
    if job.take_over:
        argv.append("--take-over")
    return argv


def environment(job: Job) -> dict[str, str]:
    """The job's, such that the run and its children find the packages that this very program was loaded from."""
    home = str(Path(rltui.__file__).resolve().parent.parent)
    rest = job.environ.get("PYTHONPATH")
    path = f"{home}{os.pathsep}{rest}" if rest else home
    return {**job.environ, "PYTHONPATH": path, "PYTHONSAFEPATH": "1"}


class LocalRun(Started):
    def __init__(self, process: subprocess.Popen[bytes], paths: RunPaths, protocol_from: int, log_from: int) -> None:
        self._process, self._paths = process, paths
        self._protocol_from, self._log_from = protocol_from, log_from
        self.source = LocalRunSource(paths.root)
        self.pid, self.where = process.pid, f"pid {process.pid}"
        self._identity: ProcessId | None
        try:
            self._identity = ProcessId.of(process.pid)
        except ProcessLookupError:  # ended already; its exit status tells
            self._identity = None

    def exit_code(self) -> int | None:
        return self._process.poll()

    def last_words(self) -> tuple[str, str | None]:
        error = last_error(self._paths, self._protocol_from)
        if error is not None:
            return str(error["message"]), error["hint"]
        if not self._paths.root.exists():
            return f"the run's folder {self._paths.root} is gone", "leave the folder of a run alone until it has ended"
        if shutil.disk_usage(self._paths.root).free < LITTLE_ROOM:
            return f"there is no space left on the disk of {self._paths.root}", "free some space, then start it again"
        code, log = self._process.returncode, self._paths.root / LOG
        if code is not None and code < 0:  # from outside: its log does not know why
            whom = "; the kernel does that when memory runs out: see dmesg" if -code == signal.SIGKILL else ""
            return f"the coordinator was killed by signal {-code}{whom}", f"{log} tells what it did last"
        words = [line for line in tail(self._paths, LOG, self._log_from) if line.strip()]
        cause = f": {words[-1].strip()}" if words else ""
        return f"the coordinator ended with status {code}{cause}", f"read {log}"

    def stop(self) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        if self._identity is not None:
            kill_leader(self._identity)
        self._process.wait()


def _append(paths: RunPaths, name: str) -> BinaryIO:
    return os.fdopen(paths.open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT), "ab")
