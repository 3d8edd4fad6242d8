"""The token ledger: which correlation ids may call, and every call they made, exactly as the engine saw it."""

from __future__ import annotations

import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from trainer.inference.sampling import CallPolicy
from trainer.rollout.types import Call
from trainer.steady import steady

__all__ = ["CallError", "CallPolicy", "CallRecord", "Episode", "Ledger"]

GRACE_S = 10.0  # a finished id is still answered this long: apps tidy up after themselves
MAX_ERRORS = 1000  # kept of an episode: an app that asks in a loop must not fill the memory
NO_TOOL_PARSER = "no_tool_parser"  # of a call that no call of the run can do better than
REMEMBERED = 100_000  # finished ids that get 410 instead of 404


@dataclass(frozen=True, slots=True)
class CallError:
    """A call that got an error instead of a completion."""

    code: str  # call_limit, context_length_exceeded, invalid_request_error, no_tool_parser, engine_error
    status: int
    call: int  # index that the call would have had
    message: str


@dataclass(slots=True)
class CallRecord:
    """All that one episode asked for, in order."""

    calls: list[Call] = field(default_factory=list)
    errors: list[CallError] = field(default_factory=list)
    forced: dict[str, int] = field(default_factory=dict)  # parameter -> calls in which it was forced or dropped
    malformed: int = 0  # addresses that had to be repaired


@dataclass(slots=True)
class Episode:
    """The live state of one correlation id."""

    cid: str
    policy: CallPolicy
    record: CallRecord = field(default_factory=CallRecord)
    started: int = 0
    cancel: dict[int, Callable[[], Any]] = field(default_factory=dict)  # running call -> its abort
    partial: dict[int, Call] = field(default_factory=dict)  # running call -> what it has so far
    closed_at: float | None = None

    def fail(self, code: str, status: int, call: int, message: str) -> None:
        if len(self.record.errors) < MAX_ERRORS:
            self.record.errors.append(CallError(code, status, call, message))


class Ledger:
    """Open a cid before its address is handed out; close it when the episode is over."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._open: dict[str, Episode] = {}
        self._finished: OrderedDict[str, Episode | None] = OrderedDict()  # None once the grace is over
        self._grace: deque[Episode] = deque()

    def open(self, cid: str, policy: CallPolicy) -> None:
        if cid in self._open or cid in self._finished:
            raise ValueError(f"the correlation id {cid} was used before")
        self._open[cid] = Episode(cid, policy)

    def close(self, cid: str) -> CallRecord:
        """Ends the episode and gives its record. Calls that still run are aborted and recorded so."""
        episode = self._open.pop(cid)
        episode.closed_at = self._clock()
        for call, cancel in list(episode.cancel.items()):
            cancel()
            partial = episode.partial[call]
            partial.finish_reason, partial.t_end = "abort", steady()
            episode.record.calls.append(partial)
        record = episode.record
        record.calls.sort(key=lambda c: c.call)
        record.forced = dict(Counter(name for call in record.calls for name in call.forced))
        # what is still answered in the grace goes to a record that nobody reads
        episode.record, episode.cancel, episode.partial = CallRecord(calls=list(record.calls)), {}, {}
        self._finished[cid] = episode
        self._grace.append(episode)
        self._forget()
        return record

    @property
    def generating(self) -> int:
        """Open episodes with a call that runs."""
        return sum(bool(episode.partial) for episode in self._open.values())

    def find(self, cid: str) -> Episode | Literal["unknown", "gone"]:
        if (episode := self._open.get(cid)) is not None:
            return episode
        self._forget()
        if cid not in self._finished:
            return "unknown"
        return self._finished[cid] or "gone"

    def _forget(self) -> None:
        limit = self._clock() - GRACE_S
        while self._grace and (self._grace[0].closed_at or 0) <= limit:
            self._finished[self._grace.popleft().cid] = None
        while len(self._finished) - len(self._grace) > REMEMBERED:
            self._finished.popitem(last=False)
