"""Requests to a run, and what became of them by the run's own events: nothing else counts as an answer."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from rltui.sources.base import Json, RunSource, Unreadable
from rltui.text import clean

UNANSWERED_AFTER_S = 10.0
MAX_KEPT = 200
_SETTLED = frozenset({"done", "refused", "failed"})


@dataclass(frozen=True)
class Request:
    """`state`: asked, accepted, done, refused, unanswered (after 10 s; an answer may still come), failed (it could
    not be written, so the run knows nothing of it)."""

    number: int
    action: str
    args: Json
    at: float  # epoch seconds, to be shown
    asked: float  # on the reader's own clock
    control_id: str = ""
    state: str = "asked"
    detail: str = ""  # why it was refused or failed

    @property
    def settled(self) -> bool:
        return self.state in _SETTLED


class Steering:
    """Asks one run. `ask` and `poll` read and write files: not on the thread that draws."""

    def __init__(self, source: RunSource, clock: Callable[[], float] = time.monotonic) -> None:
        self._source = source
        self._clock = clock
        self.requests: tuple[Request, ...] = ()  # oldest first; replaced, never changed

    @property
    def open(self) -> bool:
        """Whether an answer is still awaited."""
        return any(not request.settled for request in self.requests)

    def why_not(self, action: str) -> str | None:
        """Why the run does not take this action; None: it does."""
        if action in self._source.verbs:
            return None
        return f"this run does not take {action}; it takes {', '.join(sorted(self._source.verbs)) or 'no requests'}"

    def ask(self, action: str, args: Json | None = None) -> Request:
        """Write the request. Success is never assumed: see `poll`."""
        number = self.requests[-1].number + 1 if self.requests else 1
        request = Request(number, action, dict(args or {}), time.time(), self._clock())
        try:
            reason = self.why_not(action)
            if reason is None:
                request = replace(request, control_id=self._source.request(action, request.args))
        except OSError as error:
            reason = f"the request could not be written: {error.strerror or error}"
        except (ValueError, Unreadable) as error:
            reason = str(error)
        if reason is not None:
            request = replace(request, state="failed", detail=clean(reason, 300))
        self.requests = (*self.requests, request)[-MAX_KEPT:]
        return request

    def poll(self) -> list[Request]:
        """Look for answers; the requests whose state changed."""
        changed: list[Request] = []
        now: list[Request] = []
        for request in self.requests:
            fresh = request if request.settled else self._looked_at(request)
            now.append(fresh)
            if fresh is not request:
                changed.append(fresh)
        if changed:
            # `ask` may have added one meanwhile
            known = {request.number for request in now}
            self.requests = (*now, *(request for request in self.requests if request.number not in known))
        return changed

    def command(self, request: Request) -> str:
        """The exact request, for the command log."""
        args = f" {json.dumps(request.args, ensure_ascii=False)}" if request.args else ""
        where = f"  control/{request.control_id}.json" if request.control_id else ""
        return clean(f"{request.action}{args} → {self._source.place}{where}", 500)

    def answer(self, request: Request) -> str:
        """What became of it, in words, for the command log and the notice."""
        if request.state == "unanswered":
            return f"{request.action}: no answer for {UNANSWERED_AFTER_S:.0f} s"
        return f"{request.action}: {request.state}{f' ({request.detail})' if request.detail else ''}"

    def _looked_at(self, request: Request) -> Request:
        try:
            event = self._source.answer(request.control_id)
        except Unreadable:
            event = None
        if event is not None:
            state = str(event.get("type")).removeprefix("rl.control.")
            if state in ("accepted", "done", "refused") and state != request.state:
                return replace(request, state=state, detail=_why(event) if state == "refused" else "")
        late = self._clock() - request.asked >= UNANSWERED_AFTER_S
        if request.state == "asked" and late:
            return replace(request, state="unanswered")
        return request


def _why(event: Json) -> str:
    """The run's own words, which its reason is the code of: "pause was refused: it is paused already"."""
    data: Any = event.get("data")
    reason = data.get("reason") if isinstance(data, dict) else None
    message = str(event.get("message") or reason or "")
    return clean(message.partition(" was refused: ")[2] or message, 300)
