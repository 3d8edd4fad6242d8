"""A run of a job server: each read is one request, and gives the rows that the server's own reader gives."""

from __future__ import annotations

import errno
import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from rltui.model.shape import STATUS, fitting
from rltui.sources.base import (
    LOG_BYTES,
    MAX_EVENTS,
    MAX_LOG_BYTES,
    MAX_ROWS,
    Json,
    LogSlice,
    RunSource,
    Slice,
    Unreachable,
    Unreadable,
)

if TYPE_CHECKING:
    from rltui.backend import Backend

SLOW_S = 60.0  # of an answer that reads much, or waits for processes to end
SLOW = frozenset({"vocabulary", "said", "episodes"})


class HttpRunSource(RunSource):
    """May be used by several threads, as `backend` may. A connection that is lost is Unreadable; the next read tries
    again, and goes on from its cursor."""

    verbs = frozenset({"pause", "resume", "stop", "kill", "checkpoint", "evaluate", "set"})

    def __init__(self, backend: Backend, job_id: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.job_id = job_id
        self._backend = backend
        self._path = f"/rl/jobs/{quote(job_id, safe='')}"
        self.place = f"{backend.url}{self._path}"
        self._clock = clock
        self._answered = clock()

    def age(self) -> float:
        return self._clock() - self._answered

    def status(self) -> Json | None:
        status: Json | None = self._value("status")
        self._answered = self._clock()
        return status and fitting(status, STATUS)

    def document(self, name: str) -> Json | None:
        if name not in ("resolved.json", "environment.json"):
            raise ValueError(f"{name!a} is no document of a run")
        found: Json | None = self._value("document", name=name)
        return found

    def events(self, cursor: Any = None, limit: int = 1000) -> Slice:
        return self._slice("events", cursor, limit=min(limit, MAX_EVENTS))

    def metrics(self, cursor: Any = None) -> Slice:
        return self._slice("metrics", cursor)

    def groups(self, cursor: Any = None) -> Slice:
        return self._slice("groups", cursor)

    def update_lines(self, cursor: Any = None) -> Slice:
        return self._slice("update_lines", cursor)

    def judge(self, cursor: Any = None) -> Slice:
        return self._slice("judge", cursor)

    def uses(self, cursor: Any = None) -> Slice:
        return self._slice("uses", cursor)

    def dropped(self, cursor: Any = None) -> Slice:
        return self._slice("dropped", cursor)

    def episode_count(self) -> int:
        return int(self._value("episode_count"))

    def index(self, n0: int, n1: int, fields: Sequence[str] | None = None) -> list[Json]:
        names = None if fields is None else list(fields)
        return [row for a, b in _pieces(n0, n1) for row in self._value("index", n0=a, n1=b, fields=names)]

    def said(self, n0: int, n1: int) -> list[tuple[int, str]]:
        return [(n, text) for a, b in _pieces(n0, n1) for n, text in self._value("said", n0=a, n1=b)]

    def episodes(self, split: str, iteration: int) -> list[Json]:
        found: list[Json] = self._value("episodes", split=split, iteration=iteration)
        return found

    def episode(self, n: int) -> Json | None:
        found: Json | None = self._value("episode", n=n)
        return found

    def updates(self, n: int) -> Json:
        found: Json = self._value("updates", n=n)
        if "branches" in found:  # by number
            found["branches"] = {int(number): branch for number, branch in found["branches"].items()}
        return found

    def tokens(self, ref: Any) -> dict[str, list[float]] | None:
        found: dict[str, list[float | None]] | None = self._value("tokens", ref=ref)
        if found is None:
            return None
        return {name: [math.nan if x is None else x for x in values] for name, values in found.items()}

    def vocabulary(self) -> Json | None:
        found: Json | None = self._value("vocabulary")
        return found

    def checkpoints(self) -> list[Json]:
        found: list[Json] = self._value("checkpoints")
        return found

    def logs(self) -> list[Json]:
        found: list[Json] = self._value("logs")
        return found

    def log(self, name: str, cursor: Any = None, limit_bytes: int = LOG_BYTES, *, tail: bool = False) -> LogSlice:
        limit = min(limit_bytes, MAX_LOG_BYTES)
        part = self._read("log", "lines", name=name, cursor=cursor, limit_bytes=limit, tail=tail)
        return LogSlice(part["lines"], part["cursor"], part["more"], part["back"], part["unfinished"])

    def answer(self, control_id: str) -> Json | None:
        found: Json | None = self._value("answer", control_id=control_id)
        return found

    def request(self, action: str, args: Json | None = None) -> str:
        """ValueError: the server refuses it, and says why."""
        from rltui.backend import BackendError

        try:
            found = self._backend.post(f"{self._path}/control", {"action": action, "args": args or {}})
        except BackendError as error:
            if error.status in (409, 422):
                raise ValueError(error.detail) from None
            raise OSError(errno.EIO, error.detail) from None
        return str(found.get("control_id"))

    def kill(self) -> None:
        """The server ends them. Unreadable: it does not answer, or refuses."""
        from rltui.backend import BackendError

        try:
            self._backend.post(f"{self._path}/cancel", {"mode": "now"}, timeout_s=SLOW_S)
        except BackendError as error:
            raise Unreadable(error.detail) from None

    def _slice(self, read: str, cursor: Any, **args: Any) -> Slice:
        part = self._read(read, "rows", cursor=cursor, **args)
        return Slice(part["rows"], part["cursor"], part["more"], part["rewind"])

    def _value(self, read: str, **args: Any) -> Any:
        return self._read(read, "value", **args)["value"]

    def _read(self, read: str, wanted: str, **args: Any) -> Json:
        from rltui.backend import BackendError

        timeout_s = SLOW_S if read in SLOW else None
        try:
            found = self._backend.post(f"{self._path}/read", {"read": read, "args": args}, timeout_s=timeout_s)
        except BackendError as error:
            raise (Unreachable if error.passing else Unreadable)(error.detail) from None
        if wanted not in found:
            raise Unreadable(f"{self._backend.url} answers, but not as an rltui server does")
        return found


def _pieces(n0: int, n1: int) -> Iterator[tuple[int, int]]:
    for start in range(n0, n1, MAX_ROWS):
        yield start, min(n1, start + MAX_ROWS)
