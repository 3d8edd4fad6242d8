"""The list of episodes: which are shown, in which order, found in the watcher's thread where that takes long."""

from __future__ import annotations

import time
from array import array
from typing import TYPE_CHECKING

from rich.segment import Segment

from rltui.model.episode_list import Bin, bins, view_of
from rltui.model.episode_view import EpisodeView
from rltui.model.fates import Fates
from rltui.screens.monitor.episode_line import line
from rltui.sources.base import Json, Unreadable

if TYPE_CHECKING:
    from rltui.look.look import Look
    from rltui.model.episodes import EpisodeRows
    from rltui.model.run import RunModel

SLICE_S = 0.1  # of a search, then what else is to be read has its turn


class Histogram:
    """The bins of what a view has found: counted in the thread that reads, 100,000 rewards take it a while."""

    def __init__(self, view: EpisodeView) -> None:
        self._view = view
        self._counted: array[float] | None = None
        self.bins: list[Bin] = []

    def refresh(self) -> None:
        rewards = self._view.rewards  # another array whenever another was found
        if rewards is not self._counted:
            self._counted, self.bins = rewards, bins(rewards)


class Episodes:
    """Row source of the list. `view` is None while all episodes are shown, newest first."""

    def __init__(self, model: RunModel) -> None:
        self._rows = model.episodes
        self._rows.order = "newest"
        self.source = model.source
        self.fates = Fates(model.source)
        self.view: EpisodeView | None = None
        self._all = EpisodeView(self._rows, fields=("R",))
        self._histogram = self._of_all = Histogram(self._all)
        self.text = ""
        self.sort = "newest"
        self.ended = False  # by a person: the search goes on when they say so, or choose anew

    def choose(self, text: str, sort: str) -> None:
        """Filter and sort; FilterError leaves both as they were. The caller has `scan` called in the thread."""
        self.view = view_of(self._rows, self.fates, text, sort)
        self._histogram = Histogram(self.view) if self.view is not None else self._of_all
        self.text, self.sort, self.ended = text.strip(), sort, False

    def scan(self) -> bool:
        """Look at what came since, for a moment; for the thread that reads. True: there is more."""
        histogram = self._histogram
        more = self._look()
        histogram.refresh()
        return more

    def _look(self) -> bool:
        deadline = time.monotonic() + SLICE_S
        view = None if self.ended else self.view  # what became of the episodes is read on
        late = view is not None and view.late
        if not late and view is not None and self._step(view, deadline):
            return True
        for _ in self.fates.refresh():
            if time.monotonic() > deadline:
                return True
        if late and view is not None and self._step(view, deadline):
            return True
        return self._step(self._all, deadline)

    @staticmethod
    def _step(view: EpisodeView, deadline: float) -> bool:
        """Until then, or until the first rows are there to be shown."""
        nothing = not len(view)
        for scanned, total in view.scan():
            if scanned < total and (time.monotonic() > deadline or (nothing and len(view))):
                return True
        return False

    def row(self, n: int) -> Json:
        """The index row of episode n with what became of it."""
        try:
            return self.fates.over(self._rows.of(n))
        except Unreadable:
            return {"n": n}

    @property
    def rows(self) -> EpisodeRows:
        """All of them, by number."""
        return self._rows

    def bins(self) -> list[Bin]:
        """The rewards of those that are shown."""
        return self._histogram.bins

    def __len__(self) -> int:
        return len(self._rows) if self.view is None else len(self.view)

    @property
    def total(self) -> int:
        return len(self._rows)

    @property
    def done(self) -> bool:
        """Whether every episode so far has been looked at."""
        return self.view is None or self.view.scanned >= self.view.total

    def n_at(self, i: int) -> int:
        return self._rows.n_at(i) if self.view is None else self.view.n_at(i)

    def find(self, n: int) -> int | None:
        return self._rows.find(n) if self.view is None else self.view.find(n)

    def key(self, i: int) -> int | None:
        try:
            return self.n_at(i)
        except IndexError:  # taken back a moment ago
            return None

    def cells(self, i: int, width: int, look: Look) -> list[Segment]:
        n = self.key(i)
        if n is None:
            return []
        return line(self.row(n), width, look)

    def info(self) -> str:
        """Of all, how many are shown."""
        total = self.total
        if self.view is None:
            return f"{total} episode{'' if total == 1 else 's'}"
        scanned = self.view.scanned
        word = "ended at" if self.ended else "scanned"
        going = f", {word} {scanned} of {self.view.total}" if scanned < self.view.total else ""
        return f"{len(self)} of {total}{going}" if self.text else f"{len(self)}{going}"
