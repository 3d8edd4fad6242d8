"""A simulated inference engine: replicas whose time per token grows with the calls that they decode together."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections import deque
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Speed:
    """Seconds per decoded token of each call: `alone` + `shared` x calls. `seats` calls at most, others queue."""

    alone: float = 0.015
    shared: float = 0.0005
    seats: int = 16

    def per_token(self, calls: int) -> float:
        return self.alone + self.shared * calls

    @property
    def best(self) -> float:
        """Tokens per second of a replica whose seats are taken."""
        return self.seats / self.per_token(self.seats)


class Replica:
    """All its calls advance by the same number of tokens, so the next to end is the one with the lowest goal."""

    def __init__(self, speed: Speed) -> None:
        self._speed = speed
        self._active: list[tuple[float, int, asyncio.Future[None]]] = []  # (goal, number, ended)
        self._queue: deque[tuple[float, asyncio.Future[None]]] = deque()
        self._numbers = itertools.count()
        self._decoded = 0.0  # tokens that a call which was always there would have
        self._at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._stopped = 0
        self._work: list[tuple[float, float]] = []  # (when, tokens decoded until then, of all calls)
        self._total = 0.0
        self.load = 0

    async def generate(self, tokens: float) -> None:
        ended = asyncio.get_running_loop().create_future()
        self.load += 1
        self._advance()
        self._queue.append((tokens, ended))
        self._go_on()
        try:
            await ended
        except asyncio.CancelledError:
            self._advance()
            self._active = [call for call in self._active if call[2] is not ended]
            heapq.heapify(self._active)
            self._go_on()
            raise
        finally:
            self.load -= 1

    def decoded_between(self, began: float, ended: float) -> float:
        """Tokens of all its calls, those of calls that were given up too."""
        inside = [total for at, total in self._work if began <= at <= ended]
        return inside[-1] - inside[0] if inside else 0.0

    def stop(self) -> None:
        """As for a weight update: calls stay where they are."""
        self._advance()
        self._stopped += 1
        self._go_on()

    def go_on(self) -> None:
        self._advance()
        self._stopped -= 1
        self._go_on()

    def _advance(self) -> None:
        now = asyncio.get_running_loop().time()
        if self._active and not self._stopped:
            decoded = (now - self._at) / self._speed.per_token(len(self._active))
            self._decoded += decoded
            self._total += decoded * len(self._active)
            self._work.append((now, self._total))
        self._at = now

    def _go_on(self) -> None:
        """Ends what is done, seats what waits, and sets the timer for the next end."""
        while self._active and self._active[0][0] <= self._decoded + 1e-6:
            ended = heapq.heappop(self._active)[2]
            if not ended.done():
                ended.set_result(None)
        while self._queue and len(self._active) < self._speed.seats:
            tokens, ended = self._queue.popleft()
            if not ended.done():
                heapq.heappush(self._active, (self._decoded + tokens, next(self._numbers), ended))
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._active and not self._stopped:
            left = (self._active[0][0] - self._decoded) * self._speed.per_token(len(self._active))
            self._timer = asyncio.get_running_loop().call_later(max(left, 0.0), self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._advance()
        self._go_on()


class Engine:
    """Sends a call to the replica with the fewest. `version` is what new tokens are sampled with."""

    def __init__(self, replicas: int, speed: Speed) -> None:
        self.replicas = [Replica(speed) for _ in range(replicas)]
        self.version = 0

    async def generate(self, tokens: float) -> None:
        await min(self.replicas, key=lambda replica: replica.load).generate(tokens)

    def stop(self) -> None:
        for replica in self.replicas:
            replica.stop()

    def go_on(self) -> None:
        for replica in self.replicas:
            replica.go_on()
