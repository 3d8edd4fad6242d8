"""Threads that look while the screens are drawn: one at the folder of runs, one at the open run.

They read and hand over what they found; they know nothing of screens. Each import of a reader happens in here, so
that the first paint waits for none of them. A failure is handed over too, and the next look tries again.
"""

from __future__ import annotations

import contextlib
import contextvars
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from rltui.sources.base import TERMINAL
from rltui.text import clean

if TYPE_CHECKING:
    from rltui.model.run import Change, RunModel
    from rltui.sources.folder import RunRow, RunsFolder
    from rltui.sources.servers import JobsOfServer

TELL_S = 0.1  # between two tellings of a first reading that goes on
QUIET_S = 5.0  # between two looks at a folder in which nothing runs
SLOW_S = 15.0  # between two looks at what should not change any more
RETRY_S = 5.0  # after a failure


class Watcher(threading.Thread):
    """Calls `look` until it is stopped. `look` gives the seconds until it wants to look again."""

    def __init__(self, name: str, failed: Callable[[str], None]) -> None:
        super().__init__(name=name, daemon=True)
        self._failed = failed
        self._context = contextvars.copy_context()  # who is told may ask it which app this is
        self._wake = threading.Event()
        self._stopped = False
        self._now = False
        self._jobs: deque[Callable[[], None]] = deque()

    def look(self) -> float:
        """To override."""
        raise NotImplementedError

    def at_end(self) -> None:
        """What is done last, after `stop`. To override."""

    @property
    def stopped(self) -> bool:
        return self._stopped

    def run(self) -> None:
        self._context.run(self._watch)

    def _watch(self) -> None:
        due = 0.0
        while not self._stopped:
            try:
                while self._jobs:
                    self._jobs.popleft()()
                if self._now or time.monotonic() >= due:
                    self._now = False
                    due = time.monotonic() + self.look()
            except Exception as error:  # whatever a reader meets becomes a line in a pane, never an exit
                due = time.monotonic() + RETRY_S
                with contextlib.suppress(RuntimeError):  # whoever is told may be gone by now
                    if not self._stopped:
                        self._failed(in_words(error))
            self._wake.wait(0.0 if self._jobs else max(0.0, due - time.monotonic()))
            self._wake.clear()
        with contextlib.suppress(RuntimeError):
            self.at_end()

    def soon(self) -> None:
        """Look again now."""
        self._now = True
        self._wake.set()

    def do(self, job: Callable[[], None]) -> None:
        """Have `job` done in this thread, soon: what reads and writes files is not for the thread that draws."""
        self._jobs.append(job)
        self._wake.set()

    def stop(self) -> None:
        """Ends after the look that goes on now. Does not wait for it."""
        self._stopped = True
        self._wake.set()


class RunWatcher(Watcher):
    """Keeps a RunModel fresh. `opened` is called once with it, `changed` after each look that found something.

    `also`: called after each look; gives the seconds until it wants the next one, None if it wants none. `last`: called
    once it was stopped.
    """

    def __init__(
        self,
        open_model: Callable[[], RunModel],
        *,
        opened: Callable[[RunModel], None],
        changed: Callable[[Change], None],
        failed: Callable[[str], None],
        also: Callable[[], float | None] = lambda: None,
        last: Callable[[], None] = lambda: None,
        period_s: float = 1.0,
    ) -> None:
        super().__init__("rltui-run", failed)
        self._also, self._last = also, last
        self._open_model, self._opened, self._changed = open_model, opened, changed
        self.period_s = period_s
        self._model: RunModel | None = None

    def look(self) -> float:
        if self._model is None:
            self._model = self._open_model()
            self._opened(self._model)
        change = self._model.refresh()
        if change and not self._stopped:
            self._changed(change)
        wanted = self._also()
        if change.more:
            return 0.0
        pause = self.period_s if self._model.live else SLOW_S
        return pause if wanted is None else min(pause, wanted)

    def at_end(self) -> None:
        self._last()


class FolderWatcher(Watcher):
    """Keeps the rows of a folder of runs fresh.

    `found(rows, gone, scanned, total)`: rows that are new or not as they were, paths that are gone, and how far the
    first reading has come. It is called only when there is something to tell, and once at the end of the first, which
    `turn` ends early: then fewer were scanned than there are.
    """

    def __init__(
        self,
        folder: Path,
        *,
        found: Callable[[list[RunRow], list[str], int, int], None],
        failed: Callable[[str], None],
        period_s: float = 1.0,
    ) -> None:
        super().__init__("rltui-runs", failed)
        self._path, self._found, self._period_s = folder, found, period_s
        self._folder: RunsFolder | None = None
        self._rows: dict[str, RunRow] = {}
        self._first = True

    def look(self) -> float:
        if self._folder is None:
            from rltui.sources.folder import RunsFolder

            self._folder = RunsFolder(self._path)
        try:
            self._look_at(self._folder)
        except Exception:  # whoever is told of it shows no run any more
            self._rows, self._first = {}, True
            raise
        return self._period_s if any(is_live(row.state) for row in self._rows.values()) else QUIET_S

    def _look_at(self, folder: RunsFolder) -> None:
        gone, news = set(self._rows), []
        scanned, told_at = 0, time.monotonic()
        for row in folder.scan():
            if self.stopped:
                return
            scanned += 1
            gone.discard(row.path)
            if self._rows.get(row.path) != row:
                self._rows[row.path] = row
                news.append(row)
            if self._first and time.monotonic() - told_at > TELL_S:
                self._found(news, [], scanned, max(scanned + 1, folder.total))
                news, told_at = [], time.monotonic()
        gone = set() if folder.cut else gone
        for path in gone:
            del self._rows[path]
        if news or gone or self._first:
            self._found(news, sorted(gone), scanned, scanned + len(folder.left))
        self._first = False

    @property
    def ended(self) -> bool:
        """Whether runs were left out."""
        return self._folder is not None and bool(self._folder.left)

    def turn(self) -> None:
        """End the first reading, or go on with it."""
        if self._folder is not None and self._first:
            self._folder.end()
        elif self._folder is not None and self._folder.left:
            self._folder.go_on()
            self.do(self._begin_anew)
            self.soon()

    def _begin_anew(self) -> None:
        self._first = True


class ServerWatcher(Watcher):
    """Keeps the rows of a job server fresh. `found(name, rows)`: all of them, when one is not as it was; while the
    server gives no answer the rows stay, and one more stands for the server."""

    def __init__(self, name: str, *, found: Callable[[str, list[RunRow]], None], period_s: float = 2.0) -> None:
        super().__init__("rltui-server", lambda why: self._lost(why))
        self.name, self._found, self._period_s = name, found, period_s
        self._jobs_there: JobsOfServer | None = None
        self._rows: list[RunRow] = []
        self._told: list[RunRow] | None = None

    def look(self) -> float:
        if self._jobs_there is None:
            from rltui.sources.servers import JobsOfServer

            self._jobs_there = JobsOfServer(self.name)
        self._rows = self._jobs_there.rows()
        self._tell(self._rows)
        return self._period_s if any(is_live(row.state) for row in self._rows) else QUIET_S

    def _lost(self, why: str) -> None:
        if self._jobs_there is not None:
            self._tell([*self._rows, self._jobs_there.failed(why)])

    def _tell(self, rows: list[RunRow]) -> None:
        if rows != self._told and not self.stopped:
            self._told = rows
            self._found(self.name, rows)


def is_live(state: str) -> bool:
    """Whether a run in this state may still change."""
    return state not in TERMINAL and state != "unreadable"


def in_words(error: BaseException) -> str:
    """An exception as one safe line: its own words where it has some."""
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return clean(f"{where}{error.strerror}", 300)
    return clean(str(error) or type(error).__name__, 300)
