"""When a request is made once more, and how long to wait before."""

from __future__ import annotations

import math
import random
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

RETRYABLE_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504})
MAX_RETRY_AFTER_S = 60.0

Sleep = Callable[[float], Awaitable[None]]


def backoff(attempt: int, retry_after: float | None, rng: random.Random) -> float:
    """Seconds to wait after failed try `attempt` (from 0): 0.5, 1, 2, ... with 25 % of jitter.

    retry_after: what the app asked for in seconds, honoured up to 60.
    """
    wait = 0.5 * 2.0 ** min(attempt, 7) * rng.uniform(0.75, 1.25)
    return wait if retry_after is None else max(wait, min(retry_after, MAX_RETRY_AFTER_S))


def parse_retry_after(value: str | None, now: datetime) -> float | None:
    """Seconds of a `Retry-After` header, given as seconds or as an HTTP date; None if it is neither."""
    if not value:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            when = parsedate_to_datetime(value)
        except ValueError:
            return None
        seconds = (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() - now.timestamp()
    return max(0.0, seconds) if math.isfinite(seconds) else None
