"""Runs the checks, those at once that do not wait for each other, and tells what comes as it comes."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator, Sequence

from rltui.preflight.base import Began, Check, Context, Found, Result, skipped
from rltui.text import clean

JOIN_S = 10.0  # for checks that hold a process, at a stop


class Preflight:
    """`run` blocks between two results: give it a thread. `stop` may be called from any other."""

    def __init__(self, context: Context, checks: Sequence[Check]) -> None:
        self.context, self.checks = context, tuple(checks)
        self.results: dict[str, Result] = {}
        self._news: queue.Queue[tuple[str, Found, float] | None] = queue.Queue()
        self._held: list[threading.Thread] = []
        self._starting = threading.Lock()

    def run(self) -> Iterator[Began | Result]:
        """Each check that begins, each that ends; a check that overruns its limit fails, and is not waited for."""
        waiting = list(self.checks)
        running: dict[str, tuple[Check, float]] = {}
        while (waiting or running) and not self.context.stopped.is_set():
            for check in list(waiting):
                if not all(need in self.results for need in check.needs):
                    continue
                waiting.remove(check)
                if lacking := [need for need in check.needs if self.results[need].verdict == "fail"]:
                    titles = ", ".join(self.results[need].title for need in lacking)
                    yield self._end(check, skipped(f"waits for: {titles}"), 0.0)
                    break  # others may have waited for this one
                running[check.id] = (check, time.monotonic())
                yield Began(check.id)
                self._begin(check)
            else:
                yield from self._next(running)

    def stop(self) -> None:
        """End early. Returns once what the checks had started is gone."""
        with self._starting:
            self.context.stopped.set()
            held = list(self._held)
        self._news.put(None)
        deadline = time.monotonic() + JOIN_S
        for thread in held:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _begin(self, check: Check) -> None:
        thread = threading.Thread(target=self._work, args=(check,), name=f"check {check.id}", daemon=True)
        with self._starting:
            if self.context.stopped.is_set():
                return
            if check.holds:
                self._held.append(thread)
            thread.start()

    def _work(self, check: Check) -> None:
        began = time.monotonic()
        try:
            found = check.run(self.context)
        except Exception as error:  # a fault of the check is no verdict on the run, and must not go unseen
            why = clean(f"{type(error).__name__}: {error}", 300)
            found = Found("warn", f"this check hit a fault of its own: {why}")
        self._news.put((check.id, found, time.monotonic() - began))

    def _next(self, running: dict[str, tuple[Check, float]]) -> Iterator[Result]:
        """The next that ends or overruns."""
        if not running:
            return
        first = min(running.values(), key=lambda item: item[1] + item[0].limit_s)
        left = first[1] + first[0].limit_s - time.monotonic()
        try:
            news = self._news.get(timeout=max(0.0, left))
        except queue.Empty:
            check = first[0]
            del running[check.id]
            yield self._end(check, Found("fail", f"no answer within {check.limit_s:g} s"), check.limit_s)
            return
        if news is not None and news[0] in running:
            check, _ = running.pop(news[0])
            yield self._end(check, news[1], news[2])

    def _end(self, check: Check, found: Found, seconds: float) -> Result:
        result = self.results[check.id] = Result(check.id, check.title, seconds, found)
        return result
