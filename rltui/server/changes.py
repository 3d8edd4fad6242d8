"""`GET /jobs/stream`: the lives of all jobs as server-sent events (WIRE 3.2)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from rltui.server.jobs import Jobs
from rltui.server.reading import Reading, reading
from rltui.server.sse import KEEP_ALIVE, KEEP_ALIVE_S, EventStream, block

LOOK_S = 0.25


async def changes(request: Request) -> Response:
    jobs: Jobs = request.app.state.jobs
    asked = request.query_params.get("since_seq") or request.headers.get("last-event-id")
    # Without a place to go on from a client wants what happens from now on, not the past of the server.
    since = int(asked) if asked and asked.isascii() and asked.isdigit() and len(asked) < 19 else jobs.table.last_change
    return EventStream(_blocks(jobs, reading(request.app), since))


async def _blocks(jobs: Jobs, all_runs: Reading, since: int) -> AsyncGenerator[bytes, None]:
    yield KEEP_ALIVE
    said = time.monotonic()
    while not all_runs.closing:
        if jobs.table.last_change > since:
            for change in await run_in_threadpool(jobs.changes, since):
                since = change["seq"]
                yield block(change, change["type"], since)
            said = time.monotonic()
        elif time.monotonic() - said >= KEEP_ALIVE_S:
            yield KEEP_ALIVE
            said = time.monotonic()
        else:
            await asyncio.sleep(LOOK_S)
