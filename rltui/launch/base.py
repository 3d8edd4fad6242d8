"""Where a run's coordinator starts. A launcher is one file that knows one kind of place."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rltui.sources.base import RunSource

STEERING = frozenset({"pause", "resume", "stop", "kill", "checkpoint", "evaluate", "set"})


@dataclass(frozen=True)
class Job:
    """What to start: `python -m trainer run CONFIG --run-dir DIR` with its options, here or elsewhere."""

    config: Path  # on this machine
    run_dir: Path | None  # absolute, and a folder of this machine; None: the place names it (a job server)
    job_id: str  # a job server gives its own
    sets: tuple[str, ...] = ()
    allow_unknown: bool = False
    resume: bool = False  # a further attempt of the run in run_dir
    from_step: int | None = None  # of the checkpoint to go on from; None: the newest
    take_over: bool = False  # of a run on another host, once that is silent
    key: str = ""  # names this start: a place that was asked twice with one key starts one run
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)  # of which the run gets what it needs

    @property
    def folder(self) -> Path:
        """run_dir of a target whose runs are folders of this machine."""
        assert self.run_dir is not None
        return self.run_dir


class LaunchError(Exception):
    """Nothing was started: what happened, in a sentence. `hint`: what to do. `refused`: it is wrong with the config
    or the request, so that asking again is of no use."""

    def __init__(self, message: str, hint: str = "", *, refused: bool = False) -> None:
        super().__init__(message)
        self.hint, self.refused = hint, refused


@dataclass(frozen=True)
class Fact:
    """Something to know of a target before a start. ok: True, False: no run starts there, None: a warning."""

    name: str  # reachable, version, queue, clock, shared folder, …
    ok: bool | None
    text: str  # a sentence
    fix: str = ""  # what to do


class Started(ABC):
    """A coordinator that was started. It lives on without us; this only tells what became of it.

    None of these raises for a place that gives no answer now: that shows in `source`, whose reads raise Unreadable.
    """

    source: RunSource
    where: str  # how to find it again, in words: "pid 4711", "Slurm job 17", "job rl_… at http://…"
    pid: int | None = None  # of a process of this machine

    @abstractmethod
    def exit_code(self) -> int | None:
        """What the coordinator, or the job that holds it, ended with, as far as is known; None while it runs. Cheap:
        it is asked several times a second."""

    @abstractmethod
    def last_words(self) -> tuple[str, str | None]:
        """(message, hint) of why it ended, for when it ended before it could write a status."""

    @abstractmethod
    def stop(self) -> None:
        """Ask it to stop, for when it is too young to read requests from its run directory."""

    @abstractmethod
    def kill(self) -> None:
        """End it and everything it started, at once."""

    def waiting(self) -> str:
        """What a run without a status waits for, in words: "queued, 3 before it", a batch system's reason, or ""."""
        return ""


class Launcher(ABC):
    """A target. Making one looks at nothing and starts nothing; every method may block for some seconds."""

    name: str  # as it was given: local, slurm, ssh://user@host, …
    shares_disk: bool = True  # its runs are folders of this machine as well, so that Job.run_dir is given
    outlives: bool = False  # Ctrl-C on a followed run leaves it running (WIRE 4.5)
    scripted: bool = False  # what it submits is a script, and may be changed: see `edited`
    edited: str | None = None  # that script, where somebody has changed what `shown` gave
    sets: tuple[str, ...] = ()  # KEY=VALUE that it gives the config unless that sets the key: compute.launcher

    @abstractmethod
    def shown(self, job: Job) -> str:
        """The exact command or request that `start` makes, or the script that it submits, to be shown; no secrets."""

    @abstractmethod
    def start(self, job: Job) -> Started:
        """Start the coordinator in a session of its own. Raises LaunchError."""

    def facts(self, job: Job | None = None) -> list[Fact]:
        """What the preflight asks of it: whether it can be reached, its queue, what it has. Raises nothing; an answer
        takes at most 35 s. job: the run that is considered, where its folder matters."""
        return []

    def verbs(self) -> frozenset[str]:
        """The steering requests that its runs take."""
        return STEERING
