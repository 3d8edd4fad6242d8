"""How a run is seen, wherever it lives: screens and verbs ask a `RunSource`, and open no file of a run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

TERMINAL = frozenset({"succeeded", "failed", "cancelled"})
UPDATE_FIELDS = ("n", "attempt", "step", "kind", "adv", "s", "clip", "lag", "excl")
LOG_BYTES = 64 << 10  # of one read of a log
# What one read over HTTP may ask for.
MAX_ROWS, MAX_EVENTS, MAX_LOG_BYTES = 20_000, 5_000, 4 << 20


@dataclass(frozen=True)
class Slice:
    """Some rows of a stream, and where its next read goes on. `more`: there are further rows already."""

    rows: list[Any]  # Json; of `dropped` pairs
    cursor: Any
    more: bool = False
    # Of rows handed out before, those with a step above this no longer count: drop them before taking `rows`.
    # -1: the stream begins anew. None: all of them stand.
    rewind: int | None = None


@dataclass(frozen=True)
class LogSlice:
    """Some lines of a log, oldest first."""

    lines: list[str]  # as they were written: escape sequences and carriage returns are still in them
    cursor: Any  # reading forward goes on here
    more: bool = False  # there are further lines already, in the direction that was read
    back: Any = None  # what lies before `lines` ends here; None: nothing does
    unfinished: str = ""  # what stands after the last line without an end of its own; it comes again with its end


class Unreadable(Exception):
    """Something of a run is there but cannot be read; the text is the reason."""


class Unreachable(Unreadable):
    """Where the run lives gives no answer now; a later read may get one."""


class RunSource(ABC):
    """Reads are bounded and take a cursor (None: from the start); a run that is not there yet reads as empty.

    What an attempt did after the step that a later one resumed from is left out, and `Slice.rewind` takes back
    what was handed out before the resume was known. Every read may raise Unreadable; the next one tries again.
    """

    place: str  # where the run lives, to be shown
    verbs: frozenset[str]  # steering requests it takes

    @abstractmethod
    def age(self) -> float:
        """Seconds since `status` got an answer last, by the reader's own clock."""

    @abstractmethod
    def status(self) -> Json | None:
        """status.json as it is to be shown: a dead run is `failed` with `process_lost`, one without a sign of
        life for long has `silent`. None: there is none yet."""

    def document(self, name: str) -> Json | None:
        """resolved.json or environment.json of the newest attempt; None: it is not there."""
        return None

    @abstractmethod
    def events(self, cursor: Any = None, limit: int = 1000) -> Slice:
        """Events by seq; a cursor of -k starts k before the end. A resume takes none of them back: they are history."""

    @abstractmethod
    def metrics(self, cursor: Any = None) -> Slice:
        """Lines of metrics in the order of writing: {attempt, step, iteration, time, NAME: number}."""

    @abstractmethod
    def groups(self, cursor: Any = None) -> Slice:
        """Closed groups in the order of writing: {step, iteration, group, seed, members, rewards, mean, std, …}."""

    @abstractmethod
    def episode_count(self) -> int:
        """Episodes recorded so far, those included that no longer count: each has a number n below this."""

    @abstractmethod
    def index(self, n0: int, n1: int, fields: Sequence[str] | None = None) -> list[Json]:
        """Index rows n0 <= n < n1 that count and can be read, by n. `fields`: nothing but n and these, faster."""

    @abstractmethod
    def dropped(self, cursor: Any = None) -> Slice:
        """Rows that no longer count, as [n0, n1) pairs, newest first. Reading on costs nothing until a resume."""

    @abstractmethod
    def episodes(self, split: str, iteration: int) -> list[Json]:
        """Index rows of the episodes of one iteration; split is train or eval."""

    @abstractmethod
    def episode(self, n: int) -> Json | None:
        """Everything recorded about row n; None where its text is gone."""

    @abstractmethod
    def updates(self, n: int) -> Json:
        """What became known of row n later: {adv, excl, detail, branches: {number: {w, s, clip, …}}}."""

    def update_lines(self, cursor: Any = None) -> Slice:
        """What became known of episodes later, as it was written: UPDATE_FIELDS of each line (WIRE 5.6)."""
        return Slice([], cursor)

    def said(self, n0: int, n1: int) -> list[tuple[int, str]]:
        """(n, all that was said in it, a message a line) of the rows n0 <= n < n1 that count."""
        return []

    def tokens(self, ref: Any) -> dict[str, list[float]] | None:
        """Arrays [tokens] by name of the block at [segment, offset, bytes]. None: it was removed."""
        return None

    def vocabulary(self) -> Json | None:
        """tokenizer.json of the run's model; None: it is not at hand."""
        return None

    def judge(self, cursor: Any = None) -> Slice:
        """Judge calls in the order of writing, of all attempts: what was paid for counts."""
        return Slice([], cursor)

    def uses(self, cursor: Any = None) -> Slice:
        """What steps did with recent episodes, in the order of writing: {n, step, lag, …}; at first the newest."""
        return Slice([], cursor)

    @abstractmethod
    def checkpoints(self) -> list[Json]:
        """Stable ones, oldest first: {step, iteration, path, resumable, is_best, reward}."""

    @abstractmethod
    def logs(self) -> list[Json]:
        """Logs by name: {name, bytes, files}; rotated pieces belong to the log whose name they carry."""

    @abstractmethod
    def log(self, name: str, cursor: Any = None, limit_bytes: int = LOG_BYTES, *, tail: bool = False) -> LogSlice:
        """Lines of a log after the cursor; `tail`: those before it (None: the last ones), so `back` pages back."""

    @abstractmethod
    def request(self, action: str, args: Json | None = None) -> str:
        """Ask the run for something and give the request's id. OSError: it cannot be written."""

    @abstractmethod
    def kill(self) -> None:
        """End the run's processes from here, where that is possible. May take 10 s."""

    @abstractmethod
    def answer(self, control_id: str) -> Json | None:
        """The last event that answers a request: accepted, done or refused. None: nothing yet."""
