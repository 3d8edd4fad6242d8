"""How long the engine had nothing to do, and how long episodes waited for newer weights, or for the judge."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(slots=True)
class Meter:
    """Seconds so far, by the clock of the event loop.

    Attributes:
        busy_s: with at least one episode in flight that is not at the judge.
        training_s: with at least one training episode in flight.
        held_s: in which there was room for training episodes that wait for newer weights.
        held_since: when that began; None: they do not wait.
        judge_s: with at least one episode at the judge.
        judge_wait_s: in which all that were in flight were at the judge.
        judge_since: when that began; None: it is not so.
        judging: episodes at the judge now.
        tokens: sampled by training episodes that ended well.
    """

    busy_s: float = 0.0
    training_s: float = 0.0
    held_s: float = 0.0
    held_since: float | None = None
    judge_s: float = 0.0
    judge_wait_s: float = 0.0
    judge_since: float | None = None
    judging: int = 0
    tokens: int = 0
    _running: int = 0
    _training: int = 0
    _at: float = 0.0

    def note(self, *, running: int, training: int, held: bool, started: bool) -> None:
        """What is so from now on: episodes in flight, and training ones among them; `started`: some just now."""
        self.read()
        self._running, self._training = running, training
        begins = self.held_since is None or started
        self.held_since = (self._at if begins else self.held_since) if held else None
        self._note_judge()

    @contextmanager
    def at_judge(self) -> Iterator[None]:
        """An episode is with the judge meanwhile."""
        self.read()
        self.judging += 1
        self._note_judge()
        try:
            yield
        finally:
            self.read()
            self.judging -= 1
            self._note_judge()

    def _note_judge(self) -> None:
        """It begins anew with each judgement that ends: so long a wait is one of the last judgement."""
        waits = self.judging > 0 and self.judging >= self._running
        self.judge_since = (self._at if self.judge_since is None else self.judge_since) if waits else None

    def read(self) -> Meter:
        """Itself, up to now."""
        now = asyncio.get_running_loop().time()
        spent, self._at = now - self._at, now
        self.busy_s += spent if self._running > self.judging else 0.0
        self.training_s += spent if self._training else 0.0
        self.held_s += spent if self.held_since is not None else 0.0
        self.judge_s += spent if self.judging else 0.0
        self.judge_wait_s += spent if self.judge_since is not None else 0.0
        return self
