"""The thread that reads the runs which are compared, and what it tells the screen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual.message import Message

from rltui.sources.base import RunSource, Unreadable
from rltui.watch import SLOW_S, Watcher

if TYPE_CHECKING:
    from rltui.model.compared import ComparedRun

SLICE_S = 0.05  # that one run is read before the next one has its turn


class Read(Message):
    """Something new of a run was read."""


class ReadFailed(Message):
    """A reader met what it did not expect: why. It is tried again."""

    def __init__(self, why: str) -> None:
        super().__init__()
        self.why = why


class SourcesFound(Message):
    """The runs that were marked, wherever they are; `why`: one of them could not be found."""

    def __init__(self, paths: list[str], names: list[Path], sources: list[RunSource] | None, why: str = "") -> None:
        super().__init__()
        self.paths, self.names, self.sources, self.why = paths, names, sources, why


class EpisodesRead(Message):
    """Texts of the episodes that were asked for, in that order: (episode, updates), None where there is none."""

    def __init__(self, asked: int, found: list[tuple[dict[str, Any], dict[str, Any]] | None]) -> None:
        super().__init__()
        self.asked, self.found = asked, found


def read_episode(source: RunSource, n: int | None) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """The text of an episode and its updates; None: there is none, or it cannot be read."""
    try:
        episode = source.episode(n) if n is not None else None
        return (episode, source.updates(n)) if episode is not None and n is not None else None
    except Unreadable:
        return None


class CompareWatcher(Watcher):
    """Reads all runs in turns, so that their curves come together."""

    def __init__(self, runs: Sequence[ComparedRun], post: Callable[[Message], Any], period_s: float) -> None:
        super().__init__("rltui-compare", lambda why: post(ReadFailed(why)))
        self._runs, self._post, self._period_s = runs, post, period_s

    def look(self) -> float:
        waiting = list(self._runs)
        while waiting and not self.stopped:
            for run in list(waiting):
                some, more = run.refresh(SLICE_S)
                if some:
                    self._post(Read())
                if not more:
                    waiting.remove(run)
                if self.stopped or self._jobs:  # somebody waits for an episode
                    return 0.0
        return self._period_s if any(run.model.live for run in self._runs) else SLOW_S
