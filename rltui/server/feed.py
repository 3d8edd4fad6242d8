"""A stream of a run that many follow: its file is watched once, and each new block goes to all of them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from abc import ABC, abstractmethod
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Hashable
from typing import NamedTuple

from starlette.concurrency import run_in_threadpool

from rltui.server.sse import KEEP_ALIVE, KEEP_ALIVE_S
from rltui.sources.base import Unreadable

POLL_S = 0.1
STATE_S = 1.0  # between looks at whether the run has ended, while nothing comes
LAST_WORD_S = 1.5  # from the terminal event to the end of the stream, whatever the status says
KEPT = 1_000  # blocks in memory; who is further behind is cut off
AT_ONCE = 100  # blocks that one send may hold
CHUNKS = 8  # of what was, in memory: clients that begin at the same place read it once

_log = logging.getLogger("rltui.server")


class Block(NamedTuple):
    """`at`: the place in the stream behind it."""

    at: Hashable
    data: bytes
    last: bool = False  # it says that the run has ended


class Part(NamedTuple):
    blocks: list[Block]
    at: Hashable  # the place behind them; another one than asked for even where there are none
    more: bool


class Origin(ABC):
    """Where the blocks come from. Its methods read files, each in a thread; Unreadable."""

    @abstractmethod
    def end(self) -> Hashable:
        """The place behind everything that is there now."""

    @abstractmethod
    def new(self, at: Hashable) -> Part:
        """What came behind `at`: asked by the one that watches."""

    @abstractmethod
    def past(self, at: Hashable) -> Part:
        """The same, asked by those that are not there yet."""

    @abstractmethod
    def over(self) -> bool:
        """Whether the run has ended, so that nothing more will come."""


class _Follower:
    """`number` of the block that it takes next; None: it still reads what was."""

    def __init__(self) -> None:
        self.number: int | None = None
        self.task = asyncio.current_task()


class Feed:
    """Watches while somebody follows. Belongs to the loop."""

    def __init__(self, origin: Origin) -> None:
        self._origin = origin
        self._ring: deque[Block] = deque()
        self._first = 0  # number of the oldest block in the ring
        self._numbers: dict[Hashable, int] = {}  # by place, of the block behind it
        self._chunks: OrderedDict[Hashable, Part] = OrderedDict()
        self._followers: set[_Follower] = set()
        self._changed = asyncio.Event()
        self._reading = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._ended = False

    @property
    def watched(self) -> bool:
        return bool(self._followers)

    def close(self) -> None:
        """End every stream as it stands."""
        self._ended = True
        for follower in list(self._followers):
            if follower.task is not None:
                follower.task.cancel()

    async def follow(self, at: Hashable) -> AsyncGenerator[bytes, None]:
        """All that comes behind `at`, from what is there now on, and KEEP_ALIVE; ends when the run has ended.

        Unreadable: what was there cannot be read.
        """
        follower = _Follower()
        self._followers.add(follower)
        if self._task is None or self._task.done():
            self._ended = False
            self._task = asyncio.create_task(self._watch())
        try:
            while True:
                changed, ended = self._changed, self._ended
                follower.number = self._numbers.get(at)
                more = False
                if follower.number is None:
                    blocks, at, more = await self._past(at)
                else:
                    start = follower.number - self._first
                    blocks = [self._ring[i] for i in range(start, min(start + AT_ONCE, len(self._ring)))]
                    at = blocks[-1].at if blocks else at
                for i in range(0, len(blocks), AT_ONCE):
                    yield b"".join(block.data for block in blocks[i : i + AT_ONCE])
                if blocks or more:
                    continue
                if ended:
                    return
                if not await _within(changed, KEEP_ALIVE_S):
                    yield KEEP_ALIVE
        finally:
            self._followers.discard(follower)

    async def _past(self, at: Hashable) -> Part:
        async with self._reading:
            found = self._chunks.get(at)
            if found is None:
                found = await run_in_threadpool(self._origin.past, at)
                if found.more:  # it is as it will be
                    self._chunks[at] = found
                    if len(self._chunks) > CHUNKS:
                        self._chunks.popitem(last=False)
            return found

    async def _watch(self) -> None:
        try:
            await self._look()
        except Exception:  # its clients come again and have it watched anew; the other runs' streams go on
            _log.exception("a stream of a run cannot be watched")
            self.close()
        finally:
            # Who comes now has it watched anew, with a gap behind what is in the ring.
            self._task = None
            self._ring.clear()
            self._numbers.clear()
            self._chunks.clear()

    async def _look(self) -> None:
        at = await self._begun()
        looked, last_word = -STATE_S, None
        while self._followers and not self._ended:
            over, part = False, Part([], at, False)
            with contextlib.suppress(Unreadable):  # it is tried again
                now = time.monotonic()
                if last_word is not None or now - looked >= STATE_S:
                    looked = now
                    over = await run_in_threadpool(self._origin.over)
                over = over or (last_word is not None and now - last_word >= LAST_WORD_S)
                part = await run_in_threadpool(self._origin.new, at)
                if part.blocks:
                    at = part.at
                    last_word = time.monotonic() if part.blocks[-1].last else None
                    self._publish(part.blocks)
                elif over:
                    self._ended = True
                    self._wake()
                    return
            await asyncio.sleep(POLL_S)  # also where there is more: who reads gets the time to take it

    async def _begun(self) -> Hashable:
        """The place from which on the ring has everything."""
        while True:
            try:
                at = await run_in_threadpool(self._origin.end)
                break
            except Unreadable:
                await asyncio.sleep(STATE_S)
        self._numbers[at] = self._first
        self._wake()
        return at

    def _publish(self, blocks: list[Block]) -> None:
        for block in blocks:
            self._ring.append(block)
            self._numbers[block.at] = self._first + len(self._ring)
        if len(self._ring) > KEPT:
            for _ in range(len(self._ring) - KEPT):
                self._ring.popleft()
                self._first += 1
            self._numbers = {place: number for place, number in self._numbers.items() if number >= self._first}
            for follower in self._followers:
                if follower.number is not None and follower.number < self._first and follower.task is not None:
                    follower.task.cancel()
        self._wake()

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


async def _within(event: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
        return True
    except TimeoutError:
        return False
