"""How a run is seen, wherever it lives: screens and verbs ask a `RunSource`, and open no file of a run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

TERMINAL = frozenset({"succeeded", "failed", "cancelled"})


@dataclass(frozen=True)
class Slice:
    """Some rows of a stream, and where its next read goes on. `more`: there are further rows already."""

    rows: list[Json]
    cursor: Any
    more: bool = False


class Unreadable(Exception):
    """A run's status is there but says nothing; the text is the reason."""


class RunSource(ABC):
    """Reads are bounded and take a cursor (None: from the start); a run that is not there yet reads as empty.

    What an attempt did after the step that a later one resumed from is left out.
    """

    place: str  # where the run lives, to be shown
    verbs: frozenset[str]  # steering requests it takes

    @abstractmethod
    def status(self) -> Json | None:
        """status.json as it is to be shown: a dead run is `failed` with `process_lost`, one without a sign of
        life for long has `silent`. None: there is none yet. Unreadable."""

    @abstractmethod
    def events(self, cursor: Any = None, limit: int = 1000) -> Slice: ...

    @abstractmethod
    def metrics(self, cursor: Any = None) -> Slice:
        """Lines of metrics in the order of writing: {attempt, step, iteration, time, NAME: number}."""

    @abstractmethod
    def episodes(self, split: str, iteration: int) -> list[Json]:
        """Index rows of the episodes of one iteration; split is train or eval."""

    @abstractmethod
    def episode(self, n: int) -> Json | None:
        """Everything recorded about row n; None where its text is gone."""

    @abstractmethod
    def checkpoints(self) -> list[Json]:
        """Stable ones, oldest first: {step, iteration, path, resumable, is_best, reward}."""

    @abstractmethod
    def request(self, action: str, args: Json | None = None) -> str:
        """Ask the run for something and give the request's id. OSError: it cannot be written."""

    @abstractmethod
    def kill(self) -> None:
        """End the run's processes from here, where that is possible."""

    @abstractmethod
    def answer(self, control_id: str) -> Json | None:
        """The last event that answers a request: accepted, done or refused. None: nothing yet."""
