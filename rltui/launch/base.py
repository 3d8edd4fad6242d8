"""Where a run's coordinator starts. A launcher is one file that knows one place."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Job:
    """What to start: `python -m trainer run CONFIG --run-dir DIR` with its options."""

    config: Path
    run_dir: Path
    job_id: str
    sets: tuple[str, ...] = ()
    allow_unknown: bool = False
    resume: bool = False  # a further attempt of the run in run_dir
    from_step: int | None = None  # of the checkpoint to go on from; None: the newest
    take_over: bool = False  # of a run on another host, once that is silent


class Started(ABC):
    """A coordinator that was started. It lives on without us; this only tells what became of it."""

    pid: int

    @abstractmethod
    def exit_code(self) -> int | None:
        """None while it runs."""

    @abstractmethod
    def last_words(self) -> tuple[str, str | None]:
        """(message, hint) of why it ended, for when it ended before it could write a status."""

    @abstractmethod
    def stop(self) -> None:
        """Ask it to stop, for when it is too young to read requests from its run directory."""

    @abstractmethod
    def kill(self) -> None:
        """End it and everything it started, at once."""


class Launcher(ABC):
    name: str

    @abstractmethod
    def command(self, job: Job) -> list[str]:
        """The exact command that `start` runs, to be shown."""

    @abstractmethod
    def start(self, job: Job) -> Started:
        """Start the coordinator in a session of its own. Raises OSError where that is not possible."""
