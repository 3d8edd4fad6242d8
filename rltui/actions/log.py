"""What the interface did: the exact command or request of each action, with its time, the last 1,000 of them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from rltui.text import clean

MOST = 1_000
MAX_CHARS = 4_000  # of one command


@dataclass(frozen=True, slots=True)
class Did:
    """One action. `at`: seconds since the epoch. `answer`: what came of it, "" while nothing is known."""

    at: float
    command: str
    answer: str = ""


class CommandLog:
    """Bounded; `first` counts what has gone, so that `first + i` names line i for ever. Add from any thread."""

    def __init__(self, most: int = MOST, clock: Callable[[], float] = time.time) -> None:
        self._rows: deque[Did] = deque(maxlen=most)
        self._clock = clock
        self._added = 0

    def add(self, command: str, answer: str = "") -> Did:
        """Keep one line. Who calls leaves secrets out: a command that holds one is kept with its variable's name."""
        did = Did(self._clock(), clean(command, MAX_CHARS), clean(answer, MAX_CHARS))
        self._rows.append(did)
        self._added += 1
        return did

    @property
    def first(self) -> int:
        """How many lines were dropped since the start."""
        return self._added - len(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def rows(self) -> list[Did]:
        """All that is kept, oldest first."""
        return list(self._rows)
