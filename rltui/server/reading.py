"""The runs that clients of the server look at: each is open once, and read by one thread at a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from rltui.server.answers import Refused, answer
from rltui.server.damage import DAMAGED, refusal
from rltui.server.feed import Feed
from rltui.server.slots import in_queue
from rltui.sources.base import TERMINAL, Json, RunSource, Unreadable
from rltui.sources.local import LocalRunSource
from trainer.rundir.reader import RunReader

T = TypeVar("T")

IDLE_S = 600.0  # a run that nobody asked about for so long is forgotten
MAX_OPEN = 256
MAX_WAITING = 500  # requests that wait for one run


class OpenRun:
    """A run and what is known of it by now. `source` and `reader` are used inside `ask` only.

    `newest` gives the attempt that was asked for last, `place` the position in the queue of a job that waits.
    """

    def __init__(
        self,
        job_id: str,
        folder: Path,
        newest: Callable[[], int] = lambda: 0,
        place: Callable[[], int | None] = lambda: None,
    ) -> None:
        self.job_id, self.folder = job_id, folder
        self._newest, self._place = newest, place
        self.source = LocalRunSource(folder)
        self.reader = RunReader(folder)
        self.touched = time.monotonic()
        self.feeds: dict[str, Feed] = {}  # streams of this run, by what they tell of
        self._kept: dict[str, Any] = {}
        self._lock = asyncio.Lock()
        self._waiting = 0

    @property
    def busy(self) -> bool:
        return self._waiting > 0 or any(feed.watched for feed in self.feeds.values())

    def status(self, source: RunSource) -> Json | None:
        """Its status. One that is to go on waits, whatever the attempt before said at its end."""
        found, newest = source.status(), self._newest()
        if found is None:
            return None
        if found.get("state") in TERMINAL and (found.get("attempt") or newest) < newest:
            waits = {"state": "queued", "phase": "queued", "attempt": newest}
            found = {**found, **waits, "end_reason": None, "error": None, "finished_at": None, "results": None}
        return in_queue(found, self._place()) if found.get("state") == "queued" else found

    def over(self, source: RunSource) -> bool:
        return (self.status(source) or {}).get("state") in TERMINAL

    def kept(self, name: str, make: Callable[[], T]) -> T:
        """What is worked out about this run and goes on from where it was; made once."""
        if name not in self._kept:
            self._kept[name] = make()
        found: T = self._kept[name]
        return found

    async def ask(self, read: Callable[[], T]) -> T:
        """What `read` gives, in a thread, once nobody else reads this run.

        Raises:
            Refused: too many wait for it.
        """
        if self._waiting >= MAX_WAITING:
            raise Refused(429, "busy", f"{self._waiting} requests wait for this run; ask again later")
        self._waiting += 1
        try:
            async with self._lock:
                return await run_in_threadpool(read)
        finally:
            self._waiting -= 1
            self.touched = time.monotonic()


class Reading:
    """All runs that are open."""

    def __init__(self) -> None:
        self._runs: dict[str, OpenRun] = {}
        self.closing = False

    def run(self, job_id: str, folder: Path, newest: Callable[[], int], place: Callable[[], int | None]) -> OpenRun:
        """The run in that folder; those that nobody looks at are let go."""
        found = self._runs.get(job_id)
        if found is None or found.folder != folder:
            self._let_go()
            found = self._runs[job_id] = OpenRun(job_id, folder, newest, place)
        found.touched = time.monotonic()
        return found

    def _let_go(self) -> None:
        idle = sorted((run for run in self._runs.values() if not run.busy), key=lambda run: run.touched)
        least = time.monotonic() - IDLE_S
        for i, run in enumerate(idle):
            if run.touched < least or (len(self._runs) >= MAX_OPEN and i < len(idle) // 2):
                del self._runs[run.job_id]

    def close(self) -> None:
        """End every stream: the server is about to go."""
        self.closing = True
        for run in self._runs.values():
            for feed in run.feeds.values():
                feed.close()


def reading(app: Starlette) -> Reading:
    """The one of this server."""
    found: Reading | None = getattr(app.state, "reading", None)
    if found is None:
        found = app.state.reading = Reading()
    return found


Handler = Callable[[Request], Awaitable[Response]]


def of_run(handle: Callable[[Request, OpenRun], Awaitable[Response]]) -> Handler:
    """A handler of a path with `job_id` that is given its run, and may raise Refused or Unreadable."""

    async def handler(request: Request) -> Response:
        try:
            job_id, jobs = request.path_params["job_id"], request.app.state.jobs
            folder = jobs.folder(job_id)
            if folder is None:
                raise Refused(404, "not_found", f"no job {job_id[:100]!a} on this server")
            if reading(request.app).closing:
                raise Refused(503, "shutting_down", "the server is shutting down")
            asked = (lambda: int(jobs.attempt(job_id)), lambda: jobs.place(job_id))
            run = reading(request.app).run(job_id, folder, *asked)
            return await handle(request, run)
        except Refused as refused:
            return refused.response()
        except Unreadable as error:
            return Refused(409, "unreadable", str(error)).response()
        except DAMAGED as error:
            return refusal(request.path_params["job_id"], error).response()

    return handler


async def answered(request: Request, run: OpenRun, read: Callable[[], object]) -> Response:
    """`read` and its encoding, both off the loop that all clients share."""
    return await run.ask(lambda: answer(request, read()))
