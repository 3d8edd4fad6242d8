"""How often a server that ends may be started again, and how soon."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable

from trainer.inference.engine import EngineError

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


async def start_again(
    restarts: Restarts, cause: str, version: int, start: Callable[[], Awaitable[None]], note: Callable[[str], None]
) -> str:
    """Empty once `start` has come through, else why there is no server any more. `cause`: of the end before;
    `version`: of the weights that `start` brings."""
    while True:
        tries, wait = restarts.count, restarts.take()
        if wait is None:
            fate = f"{cause}; it was started again {tries} times within {WINDOW_S:g} s and is given up"
            note(fate)
            return fate
        note(f"{cause}; it is started again at weight version {version}")
        await asyncio.sleep(wait)
        try:
            await start()
            return ""
        except EngineError as error:
            cause = str(error)
