"""How many examples a property gets, how many it has had, and how long one may take."""

from __future__ import annotations

import faulthandler
import functools
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from hypothesis import HealthCheck, Phase, settings

RANDOM = "FUZZ_RANDOM" in os.environ  # set by `python -m tests.fuzz`; else always the same examples
PHASES = (Phase.explicit, Phase.generate, Phase.shrink)
RUN: Counter[str] = Counter()  # examples by property


def examples(count: int) -> Callable[[Any], Any]:
    """The decorator, above `given`, for a property that gets `count` examples."""
    chosen = settings(
        max_examples=count,
        derandomize=not RANDOM,
        database=None,
        deadline=None,
        phases=PHASES,
        suppress_health_check=list(HealthCheck),
    )

    def of(test: Any) -> Any:
        inner = test.hypothesis.inner_test

        @functools.wraps(inner)
        def counted(*args: Any, **named: Any) -> Any:
            RUN[test.__name__] += 1
            return inner(*args, **named)

        test.hypothesis.inner_test = counted
        return chosen(test)

    return of


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """AssertionError: it took longer, which is a hang. Main thread only."""

    def late(*_: Any) -> None:
        faulthandler.dump_traceback(sys.__stderr__)
        raise AssertionError(f"not done after {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
