"""How long the engine had nothing to do, and how long episodes waited for newer weights."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass


@dataclass(slots=True)
class Meter:
    """Seconds so far, by the clock of the event loop.

    Attributes:
        busy_s: with at least one episode in flight.
        training_s: with at least one training episode in flight.
        held_s: in which there was room for training episodes that wait for newer weights.
        held_since: when that began; None: they do not wait.
        tokens: sampled by training episodes that ended well.
    """

    busy_s: float = 0.0
    training_s: float = 0.0
    held_s: float = 0.0
    held_since: float | None = None
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

    def read(self) -> Meter:
        """Itself, up to now."""
        now = asyncio.get_running_loop().time()
        spent, self._at = now - self._at, now
        self.busy_s += spent if self._running else 0.0
        self.training_s += spent if self._training else 0.0
        self.held_s += spent if self.held_since is not None else 0.0
        return self
