"""Judge calls: how many at once, tried how often, answered from what is known; each try leaves a record."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from trainer.judge.answer import Unparsable
from trainer.judge.cache import remember
from trainer.judge.errors import EVIDENCE_CHARS, JudgeFailed, JudgeMisconfigured
from trainer.judge.http import CallFailed
from trainer.judge.judge import Load
from trainer.judge.providers import Said
from trainer.judge.types import JudgedEpisode
from trainer.rundir.records import JudgeRecord
from trainer.taskapp.retries import MAX_RETRY_AFTER_S, Sleep, backoff

T = TypeVar("T")
Record = Callable[[JudgeRecord], int]

TRIES = 3
FIRST_CALLS = 8  # a job whose first calls are all refused as requests stops (WIRE 1.8)
_LIMITED_S = 4.0  # a judge that says 429 without Retry-After is left alone so long, then twice as long


@dataclass(frozen=True, slots=True)
class Ask(Generic[T]):
    """One call.

    Attributes:
        key: sha256 of the whole request.
        send: posts it once; raises CallFailed, JudgeMisconfigured.
        read: the scores of an answer; raises Unparsable.
        note: fills in the record from the scores: total, criteria, tracks.
        keep: the answer as it is stored, at most EVIDENCE_CHARS long, so that `read` gives the same scores again.
    """

    episode: JudgedEpisode
    kind: str  # event, outcome, both
    turn: int | None
    key: str
    send: Callable[[], Awaitable[Said]]
    read: Callable[[str], T]
    note: Callable[[T], dict[str, Any]]
    keep: Callable[[str, T], str]


@dataclass(frozen=True, slots=True)
class Got(Generic[T]):
    """What a call gave. Tokens and cost are of all its tries."""

    value: T
    place: int  # what `record` gave for the line that holds the answer
    cached: bool
    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: float | None = 0.0


class Calls:
    """All calls of one judge."""

    def __init__(
        self,
        *,
        limit: int,
        record: Record,
        known: MutableMapping[str, str] | None,
        about: dict[str, Any],
        cost: Callable[[int, int], float | None] = lambda tokens_in, tokens_out: None,
        sleep: Sleep = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """
        Args:
            limit: calls in flight.
            record: writes a line, gives its place.
            known: answers by key; good ones are added. None: nothing is taken from anywhere.
            about: fields that all records share: source, provider, model, rubric_id, rubric_hash.
            cost: of tokens in and out, in US dollars.
        """
        self._room = asyncio.Semaphore(limit)
        self._record, self._known, self._about, self._cost = record, known, about, cost
        self._sleep, self._clock = sleep, clock
        self._jitter = random.Random(0)
        self._not_before = 0.0  # of `clock`: the judge asked for a pause, which holds for all calls
        self._refused, self._answered = 0, False
        self._queued = 0
        self._started: dict[int, float] = {}

    @property
    def load(self) -> Load:
        oldest = min(self._started.values(), default=None)
        age = None if oldest is None else self._clock() - oldest
        return Load(len(self._started), self._queued, age)

    async def ask(self, ask: Ask[T]) -> Got[T]:
        """Raises JudgeFailed, JudgeMisconfigured."""
        queued = time.time()
        if self._known is not None and (reply := self._known.get(ask.key)) is not None:
            try:
                value = ask.read(reply)
            except Unparsable:  # from a file: anything may stand there
                del self._known[ask.key]
            else:
                line = self._line(ask, status="cached", t_queued=queued, reply=reply, **ask.note(value))
                return Got(value, self._record(line), cached=True)
        self._queued += 1
        try:
            await self._room.acquire()
        finally:
            self._queued -= 1
        try:
            return await self._tries(ask, queued)
        finally:
            self._room.release()

    async def _tries(self, ask: Ask[T], queued: float) -> Got[T]:
        tokens_in = tokens_out = 0
        cost: float | None = 0.0
        for number in range(TRIES):
            await self._pause()
            line = self._line(ask, try_=number, t_queued=queued, t_start=time.time())
            tried = await self._try(ask, line)
            failure, said, value = tried
            if said is not None:
                line.tokens_in, line.tokens_out, line.cost_usd = said.tokens_in, said.tokens_out, self._spent(said)
                tokens_in += said.tokens_in or 0
                tokens_out += said.tokens_out or 0
                cost = None if cost is None or line.cost_usd is None else cost + line.cost_usd
            if failure is None:
                assert said is not None and value is not None
                self._answered = True
                reply = ask.keep(said.text, value)
                if self._known is not None:
                    remember(self._known, ask.key, reply)
                line = msgspec.structs.replace(line, http=200, reply=reply, **ask.note(value))
                return Got(value, self._record(line), False, tokens_in, tokens_out, cost)
            self._fail(line, failure)
            if not failure.again or number == TRIES - 1:
                times = "" if number == 0 else f" ({number + 1} tries)"
                raise JudgeFailed(failure.code, f"{failure.text}{times}", failure.reply)
            await self._back_off(failure, number)
        raise AssertionError("the last try returns or raises")

    async def _try(self, ask: Ask[T], line: JudgeRecord) -> tuple[CallFailed | None, Said | None, T | None]:
        said: Said | None = None
        started = self._started[id(ask)] = self._clock()
        try:
            said = await ask.send()
            if said.problem is not None:
                code, text = said.problem
                return CallFailed(code, text, http=200, reply=said.text), said, None
            return None, said, ask.read(said.text)
        except Unparsable as error:
            return CallFailed("judge_unparsable", str(error), http=200, reply=said.text if said else ""), said, None
        except CallFailed as failure:
            return failure, said, None
        except JudgeMisconfigured as stop:
            line.wall_s = self._clock() - started
            self._fail(line, CallFailed(stop.code, stop.message, http=stop.http, reply=stop.evidence))
            raise
        finally:
            del self._started[id(ask)]
            line.wall_s = self._clock() - started

    def _fail(self, line: JudgeRecord, failure: CallFailed) -> None:
        """Records it; raises JudgeMisconfigured where no request of the job was ever taken."""
        line.status, line.code, line.http = "failed", failure.code, failure.http
        line.reply = failure.reply[:EVIDENCE_CHARS]
        self._record(line)
        if failure.code == "judge_request":
            self._refused += 1
        if failure.code == "judge_request" and not self._answered and self._refused >= FIRST_CALLS:
            what = f"the judge refused the first {self._refused} requests: {failure.text}"
            hint = "Check judge.options.model and the other keys of [judge.options]"
            raise JudgeMisconfigured("judge_request", what, hint, failure.reply)
        if failure.code == "judge_rate_limited":  # one call of many was told so: the others need not be told, too
            wait = failure.retry_after
            wait = _LIMITED_S * 2**line.try_ if wait is None else min(wait, MAX_RETRY_AFTER_S)
            self._not_before = max(self._not_before, self._clock() + wait)

    async def _back_off(self, failure: CallFailed, tries: int) -> None:
        if failure.code != "judge_rate_limited":  # for which all calls wait, in `_pause`
            await self._sleep(backoff(tries, failure.retry_after, self._jitter))

    async def _pause(self) -> None:
        while (wait := self._not_before - self._clock()) > 0:
            await self._sleep(wait)

    def _spent(self, said: Said) -> float | None:
        if said.cost_usd is not None:
            return said.cost_usd
        if said.tokens_in is None or said.tokens_out is None:
            return None
        return self._cost(said.tokens_in, said.tokens_out)

    def _line(self, ask: Ask[T], **fields: Any) -> JudgeRecord:
        episode = ask.episode
        return JudgeRecord(
            step=episode.step,
            iteration=episode.iteration,
            n=episode.n,
            cid=episode.cid,
            kind=ask.kind,
            turn=ask.turn,
            key=ask.key,
            **self._about,
            **fields,
        )
