"""What the processes of a job wrote: the last lines, those behind a place, and those that come (WIRE 3.2, 5.9)."""

from __future__ import annotations

import re
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from rltui.server import params
from rltui.server.answers import Refused
from rltui.server.events import blocks
from rltui.server.feed import Block, Feed, Origin, Part
from rltui.server.reading import OpenRun, answered
from rltui.server.sse import EventStream, block
from rltui.sources.base import LOG_BYTES, MAX_LOG_BYTES, Json, LogSlice, RunSource
from rltui.sources.local import LocalRunSource
from trainer.rundir.logread import Place

TAIL = 200
MAX_TAIL = 5_000
LINE_BYTES = 500  # of a line, about
# By what a process does, for who does not know its file.
NAMES = {"trainer": "coordinator", "engine": "inference-0", "gateway": "gateway", "task_app": "taskapp"}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}\Z")
_PLACE = re.compile(r"(\d{1,20})-(\d{1,16})\Z")


async def logs(request: Request, run: OpenRun) -> Response:
    """Lines behind `offset`, which is a `next_offset` of before; without one the last `tail` lines."""
    name = _name(params.text(request, "source") or "trainer")
    tail = min(params.count(request, "tail", 0) or TAIL, MAX_TAIL)
    place = _place(params.text(request, "offset") or request.headers.get("last-event-id") or None)
    if not params.flag(request, "follow"):
        return await answered(request, run, lambda: _told(_read(run.source, name, place, tail)))

    part = LogSlice([], place) if place is not None else await run.ask(lambda: _read(run.source, name, None, tail))
    first = _block(part, name, run.job_id) if part.lines else b""
    feed = run.feeds.setdefault(name, Feed(_Log(run, name)))
    return EventStream(blocks(first, feed, part.cursor))


def _read(source: RunSource, name: str, place: Place | None, tail: int) -> LogSlice:
    if place is not None:
        return source.log(name, place, LOG_BYTES)
    part = source.log(name, None, min(MAX_LOG_BYTES, max(LOG_BYTES, tail * LINE_BYTES)), tail=True)
    return LogSlice(part.lines[-tail:], part.cursor)


def _told(part: LogSlice) -> Json:
    place: Place | None = part.cursor
    offset = None if place is None else f"{place.inode}-{place.offset}"
    return {"lines": part.lines, "next_offset": offset, "has_more": part.more}


def _block(part: LogSlice, name: str, job_id: str) -> bytes:
    told = _told(part)
    about = {"type": "rl.log", "seq": part.cursor.offset, "job_id": job_id, "source": name}
    return block({**about, "lines": told["lines"], "next_offset": told["next_offset"]}, "rl.log", told["next_offset"])


def _name(text: str) -> str:
    name = NAMES.get(text, text)
    if _NAME.match(name) is None:
        raise Refused(400, "malformed", f"source is the name of a log, or one of {', '.join(NAMES)}")
    return name if name.endswith(".log") else f"{name}.log"


def _place(text: str | None) -> Place | None:
    found = _PLACE.match(text or "")
    if text is not None and found is None:
        raise Refused(400, "malformed", "offset is a next_offset that this server gave")
    return None if found is None else Place(int(found[1]), int(found[2]))


class _Log(Origin):
    """Places are those of the log."""

    def __init__(self, run: OpenRun, name: str) -> None:
        self._run, self._name = run, name
        self._source = LocalRunSource(run.folder)

    def end(self) -> Place | None:
        place: Place | None = self._source.log(self._name, None, 1, tail=True).cursor
        return place

    def new(self, at: Any) -> Part:
        part = self._source.log(self._name, at, LOG_BYTES)
        made = [Block(part.cursor, _block(part, self._name, self._run.job_id))] if part.lines else []
        return Part(made, part.cursor, part.more)

    def past(self, at: Any) -> Part:
        return self.new(at)

    def over(self) -> bool:
        return self._run.over(self._source)
