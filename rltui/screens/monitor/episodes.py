"""The list of episodes: which are shown, in which order, found in the watcher's thread where that takes long."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rich.segment import Segment

from rltui.screens.monitor.episode_filter import Filter, number_of, parse
from rltui.screens.monitor.episode_line import line
from rltui.sources.base import Unreadable

if TYPE_CHECKING:
    from rltui.look.look import Look
    from rltui.model.episode_view import EpisodeView
    from rltui.model.run import RunModel

# name: (index field, highest first); newest needs no search
SORTS: dict[str, tuple[str, bool]] = {
    "newest": ("", False),
    "reward, best first": ("R", True),
    "reward, worst first": ("R", False),
    "length": ("tok", True),
}


class Episodes:
    """Row source of the list. `view` is None while all episodes are shown, newest first."""

    def __init__(self, model: RunModel) -> None:
        self._rows = model.episodes
        self._rows.order = "newest"
        self._source = model.source
        self.view: EpisodeView | None = None
        self.text = ""
        self.sort = "newest"
        self._filter: Filter | None = None

    def choose(self, text: str, sort: str) -> None:
        """Filter and sort; FilterError leaves both as they were. The caller has `scan` called in the thread."""
        wanted = parse(text)
        self.text, self.sort, self._filter = text.strip(), sort, wanted
        field, down = SORTS[sort]
        if wanted is None and not field:
            self.view = None
            return
        from rltui.model.episode_view import EpisodeView

        fields = (*(wanted.fields if wanted else ()), *((field,) if field else ()))
        key = (lambda row: number_of(row.get(field))) if field else None
        self.view = EpisodeView(
            self._rows, wanted.keep if wanted else None, key=key, reverse=down, fields=tuple(dict.fromkeys(fields))
        )

    def scan(self, told: Callable[[], Any]) -> None:
        """Look at the episodes that came since; for the thread that reads. `told` after each slice."""
        view = self.view
        if view is not None:
            for _ in view.scan():
                if view is not self.view:
                    return
                told()
            told()

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
        try:
            row = self._rows.of(n)
        except Unreadable:
            row = {"n": n}
        return line(row, width, look)

    def info(self) -> str:
        """Of all, how many are shown."""
        total = self.total
        if self.view is None:
            return f"{total} episode{'' if total == 1 else 's'}"
        scanned = self.view.scanned
        going = f", scanned {scanned} of {self.view.total}" if scanned < self.view.total else ""
        return f"{len(self)} of {total}{going}" if self.text else f"{len(self)}{going}"
