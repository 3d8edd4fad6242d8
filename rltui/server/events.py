"""Events of a job: as a list with a cursor, and as a stream (WIRE 3.5, 3.6)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Hashable
from contextlib import aclosing
from time import time
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from rltui.server import params
from rltui.server.answers import Refused
from rltui.server.feed import Block, Feed, Origin, Part
from rltui.server.reading import OpenRun, answered
from rltui.server.sse import EventStream, block
from rltui.sources.base import MAX_EVENTS, TERMINAL, Json, RunSource
from rltui.sources.local import LocalRunSource
from trainer.rundir.jsonl import iso

AT_ONCE = 1_000  # events read at a time
STREAMED = 500  # the same, by a stream
MAX_SCANNED = 20_000  # for one answer, where few of them are wanted
LEVELS = ("info", "warning", "error")
LAST = frozenset({"rl.job.completed", "rl.job.failed", "rl.job.cancelled"})


async def events(request: Request, run: OpenRun) -> Response:
    """JSON, or the stream where the client accepts nothing but that."""
    if "text/event-stream" in request.headers.get("accept", ""):
        return await stream(request, run)
    since, limit = params.count(request, "since_seq") or 0, params.limit(request, 200, MAX_EVENTS)
    level = params.choice(request, "level", LEVELS)
    levels = LEVELS[LEVELS.index(level) :] if level else ()
    types = tuple((params.text(request, "types") or "").split(",")) if params.text(request, "types") else ()
    beat = params.flag(request, "heartbeat", True)

    def read() -> Json:
        found, seq, more = _matching(run.source, since, limit, types, levels)
        if not found and seq > 0 and not more:  # who asks behind the end is told where that is
            seq = min(seq, run.reader.last_seq())
        if not found and beat:
            status = run.status(run.source)
            if (status or {}).get("state") not in TERMINAL:
                found.append(heartbeat(status, run.reader.last_seq(), run.job_id))
        return {"events": [told(event, run.job_id) for event in found], "next_seq": seq, "has_more": more}

    return await answered(request, run, read)


def _matching(
    source: RunSource, since: int, limit: int, types: tuple[str, ...], levels: tuple[str, ...]
) -> tuple[list[Json], int, bool]:
    """Events that are wanted, the seq up to which all were looked at, and whether there are more."""
    found: list[Json] = []
    seq, scanned = since, 0
    while True:
        part = source.events(seq, AT_ONCE)
        for event in part.rows:
            if len(found) == limit:
                return found, seq, True
            seq = event["seq"]
            if _wanted(event, types, levels):
                found.append(event)
        scanned += len(part.rows)
        if not part.more or scanned >= MAX_SCANNED:
            return found, seq, part.more


def _wanted(event: Json, types: tuple[str, ...], levels: tuple[str, ...]) -> bool:
    kind = str(event.get("type"))
    fits = not types or any(kind == one or (one.endswith("*") and kind.startswith(one[:-1])) for one in types)
    return fits and (not levels or event.get("level", "info") in levels)


def told(event: Json, job_id: str) -> Json:
    """An event as it leaves: with what every client looks for, whoever wrote it."""
    kind, at = event.get("type") or "rl.event", event.get("created_at") or event.get("timestamp")
    return {**event, "type": kind, "event_type": kind, "created_at": at, "timestamp": at, "job_id": job_id}


def heartbeat(status: Json | None, seq: int, job_id: str) -> Json:
    """Made while answering: its seq is that of the last stored event, so that who counts by seq passes over it."""
    status = status or {}
    now = iso(time())
    waiting = status.get("waiting") or {}
    data = {
        "iteration": status.get("iteration"),
        "total": (status.get("totals") or {}).get("iterations"),
        "in_flight": (status.get("pipeline") or {}).get("running"),
        "waiting_for": waiting.get("on") or waiting.get("for"),
    }
    return {
        "seq": seq,
        "attempt": status.get("attempt") or 1,
        "step": status.get("step") or 0,
        "type": "rl.heartbeat",
        "level": "info",
        "message": f"{status.get('phase') or 'queued'}, step {status.get('step') or 0}",
        "data": data,
        "created_at": now,
    } | {"event_type": "rl.heartbeat", "job_id": job_id, "timestamp": now}


async def stream(request: Request, run: OpenRun) -> Response:
    """Replay, then live. `Last-Event-ID`, which a client sends when it connects again, is what it has seen last."""
    since = params.count(request, "since_seq") or 0
    seen = request.headers.get("last-event-id", "").strip()
    if seen.isdecimal() and len(seen) <= 16:
        since = max(since, int(seen))
    elif seen:
        raise Refused(400, "malformed", "Last-Event-ID is the seq of an event")
    feed = run.feeds.setdefault("events", Feed(_Events(run)))

    def first() -> tuple[bytes, int]:
        """And the place from which it goes on: the end, for who asks behind it."""
        if run.source.events(since, 1).rows:
            return b"", since
        last = run.reader.last_seq()
        return block(heartbeat(run.status(run.source), last, run.job_id), "rl.heartbeat"), min(since, last)

    begin, at = await run.ask(first)
    return EventStream(blocks(begin, feed, at))


async def blocks(first: bytes, feed: Feed, at: Hashable) -> AsyncGenerator[bytes, None]:
    """What a stream begins with, then all that follows behind `at`."""
    if first:
        yield first
    async with aclosing(feed.follow(at)) as following:
        async for data in following:
            yield data


class _Events(Origin):
    """Places are seqs."""

    def __init__(self, run: OpenRun) -> None:
        self._run = run
        # Each goes on from where it read last.
        self._head, self._past = LocalRunSource(run.folder), LocalRunSource(run.folder)

    def end(self) -> int:
        rows = self._head.events(-1, 1).rows
        return int(rows[-1]["seq"]) if rows else 0

    def new(self, at: Any) -> Part:
        return self._part(self._head, at)

    def past(self, at: Any) -> Part:
        return self._part(self._past, at)

    def over(self) -> bool:
        return self._run.over(self._head)

    def _part(self, source: RunSource, at: Any) -> Part:
        part = source.events(at, STREAMED)
        blocks = [self._block(event) for event in part.rows]
        return Part(blocks, blocks[-1].at if blocks else at, part.more)

    def _block(self, event: Json) -> Block:
        event = told(event, self._run.job_id)
        return Block(event["seq"], block(event, event["type"], event["seq"]), event["type"] in LAST)
