"""How often a server that ends may be started again, and how soon."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

BACKOFF_S = (0.0, 5.0, 15.0)  # one for each restart that the window allows
WINDOW_S = 600.0


class Restarts:
    """A server that ends more often than `len(BACKOFF_S)` times within the window is given up."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._times: deque[float] = deque()

    @property
    def count(self) -> int:
        """Within the window that ends now."""
        while self._times and self._clock() - self._times[0] > WINDOW_S:
            self._times.popleft()
        return len(self._times)

    def take(self) -> float | None:
        """Seconds to wait before the next start; None: it is given up."""
        count = self.count
        if count == len(BACKOFF_S):
            return None
        self._times.append(self._clock())
        return BACKOFF_S[count]
