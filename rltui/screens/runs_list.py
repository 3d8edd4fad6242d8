"""The list of runs as data: which are shown, in which order, and what stands in a line. No widget in here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.segment import Segment

from rltui.screens.runs_line import columns, line
from rltui.shelf import ARCHIVED, PINNED, Shelf, key_of
from rltui.watch import is_live

if TYPE_CHECKING:
    from rltui.look.look import Look
    from rltui.sources.folder import RunRow

FOLDER = ""  # the origin of the runs of the folder; that of a job is the name of its server
SORTS = ("newest", "name", "state", "reward")
_STATE_ORDER = (
    "running",
    "paused",
    "stopping",
    "starting",
    "queued",
    "failed",
    "unreadable",
    "cancelled",
    "succeeded",
)


class RunRows:
    """The runs that are known, filtered and sorted; the row source of the list."""

    def __init__(self, shelf: Shelf | None = None) -> None:
        self.shelf = shelf
        self._known: dict[str, RunRow] = {}
        self._origins: dict[str, str] = {}  # by path
        self._shown: list[RunRow] = []
        self._filter: tuple[str, ...] = ()
        self.sort = SORTS[0]
        self.marks: set[str] = set()  # paths
        self.now = 0.0  # epoch seconds that ages are counted to

    def __len__(self) -> int:
        return len(self._shown)

    @property
    def known(self) -> int:
        return len(self._known)

    @property
    def live(self) -> int:
        return sum(is_live(row.state) for row in self._known.values())

    @property
    def archived(self) -> int:
        return sum(self._is(ARCHIVED, row) for row in self._known.values())

    def _is(self, kind: str, row: RunRow) -> bool:
        """Whether a run is pinned, or archived; one that lives is never out of sight."""
        if self.shelf is None:
            return False
        if kind == PINNED:
            return key_of(row) in self.shelf.pinned
        return key_of(row) in self.shelf.archived and not is_live(row.state)

    def all(self) -> list[RunRow]:
        """Every run that is known, shown or not."""
        return list(self._known.values())

    def row(self, i: int) -> RunRow:
        return self._shown[i]

    def key(self, i: int) -> str:
        return self._shown[i].path

    def of(self, path: str) -> RunRow | None:
        """What is known of a run, shown or not."""
        return self._known.get(path)

    def find(self, path: str) -> int | None:
        return next((i for i, row in enumerate(self._shown) if row.path == path), None)

    def origin(self, i: int) -> str:
        """FOLDER, or the name of the server that has it."""
        return self._origins[self._shown[i].path]

    def count(self, origin: str) -> int:
        return sum(own == origin for own in self._origins.values())

    def missing(self, origin: str, rows: Iterable[RunRow]) -> list[str]:
        """Paths of what is known of an origin that are not among `rows`."""
        there = {row.path for row in rows}
        return [path for path, own in self._origins.items() if own == origin and path not in there]

    def update(self, rows: Iterable[RunRow], gone: Iterable[str] = (), origin: str = FOLDER) -> list[int] | None:
        """Take in rows of one origin that are new or changed. Gives the shown ones to draw anew; None: all of them."""
        before = [row.path for row in self._shown]
        changed = set()
        for row in rows:
            self._known[row.path] = row
            self._origins[row.path] = origin
            changed.add(row.path)
        self._drop(gone)
        self.arrange()
        if before != [row.path for row in self._shown]:
            return None
        return [i for i, path in enumerate(before) if path in changed]

    def clear(self, origin: str = FOLDER) -> None:
        """Forget all of one origin."""
        self._drop(self.missing(origin, ()))
        self.arrange()

    def _drop(self, paths: Iterable[str]) -> None:
        for path in paths:
            self._known.pop(path, None)
            self._origins.pop(path, None)
            self.marks.discard(path)

    def filter(self, text: str) -> None:
        """Keep the runs that have every word of `text` in name, state, label, host or tags. `pinned` and `archived` are
        such words; those that are archived show with that one alone."""
        self._filter = tuple(text.casefold().split())
        self.arrange()

    def sort_next(self) -> str:
        self.sort = SORTS[(SORTS.index(self.sort) + 1) % len(SORTS)]
        self.arrange()
        return self.sort

    def toggle_mark(self, i: int) -> None:
        self.marks ^= {self._shown[i].path}

    def arrange(self) -> None:
        # A server on this machine may serve the very folder: its jobs stand there already.
        own = {row.job_id for path, row in self._known.items() if self._origins[path] == FOLDER and row.job_id}
        rows = [
            row
            for path, row in self._known.items()
            if self._fits(row) and (self._origins[path] == FOLDER or row.job_id not in own)
        ]
        rows.sort(key=lambda row: row.name)
        rows.sort(key=_ORDERS[self.sort])
        rows.sort(key=lambda row: not self._is(PINNED, row))
        self._shown = rows

    def _fits(self, row: RunRow) -> bool:
        kinds = [kind for kind in (PINNED, ARCHIVED) if self._is(kind, row)]
        if ARCHIVED in kinds and ARCHIVED not in self._filter:
            return False
        text = f"{row.name} {row.state} {row.label or ''} {row.host or ''} {' '.join((*row.tags, *kinds))}".casefold()
        return all(word in text for word in self._filter)

    def cells(self, i: int, width: int, look: Look) -> list[Segment]:
        row = self._shown[i]
        return line(
            row, columns(width), look, marked=row.path in self.marks, pinned=self._is(PINNED, row), now=self.now
        )


def _newest(row: RunRow) -> float:
    return -(row.created or 0.0)


def _by_state(row: RunRow) -> tuple[int, float]:
    place = _STATE_ORDER.index(row.state) if row.state in _STATE_ORDER else len(_STATE_ORDER)
    return place, _newest(row)


def _best_reward(row: RunRow) -> float:
    return float("inf") if row.reward is None else -row.reward


_ORDERS = {"newest": _newest, "name": lambda row: row.name.casefold(), "state": _by_state, "reward": _best_reward}
