"""Where the time of the training loop went, and what it bought (`time/*`, `throughput/*`, idle ratios of DESIGN 7)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from trainer.rollout.meter import Meter
from trainer.waiting import Waits

WAITS = ("batch", "straggler", "eval")  # of the learner


@dataclass(slots=True)
class Clock:
    """Of the whole attempt, in seconds."""

    collecting: float = 0.0  # with a training episode in flight
    total: float = 0.0  # of the training loop, from step to step by the clock on the wall
    episodes: int = 0
    sampled_tokens: int = 0


class Timing:
    """Reads waits, learning and the engine's business out, step by step."""

    def __init__(self, waits: Waits, meter: Meter) -> None:
        self.clock = Clock()
        self._waits, self._meter = waits, meter
        self._learning = self._iteration = self._at = self._busy = self._held = self._judge = self._judge_wait = 0.0

    def begin(self) -> None:
        """From now on the time counts; what was waited for before does not."""
        self._waits.take()
        self._mark()

    def _mark(self) -> None:
        meter = self._meter.read()
        self._at, self._busy, self._held = asyncio.get_running_loop().time(), meter.busy_s, 0.0
        self._judge, self._judge_wait = meter.judge_s, meter.judge_wait_s

    @contextmanager
    def working(self) -> Iterator[None]:
        """An update or a sync: episodes that are held back meanwhile wait for it. While the learner itself waits for
        episodes they do not, although none may begin either."""
        before = self._meter.read().held_s
        try:
            yield
        finally:
            self._held += self._meter.read().held_s - before

    @contextmanager
    def learning(self) -> Iterator[None]:
        started = asyncio.get_running_loop().time()
        try:
            with self.working():
                yield
        finally:
            self._learning += asyncio.get_running_loop().time() - started

    def step(self, tokens: int) -> dict[str, float]:
        """The step that ends now, which learned from `tokens`. `time/step` is the learner's: waits, update, sync."""
        meter, waited = self._meter.read(), self._waits.take()
        wall = asyncio.get_running_loop().time() - self._at
        learning, syncing = self._learning, waited["sync"]
        seconds = sum(waited[what] for what in WAITS) + learning + syncing
        busy, held = meter.busy_s - self._busy, self._held
        judge, judge_wait = meter.judge_s - self._judge, meter.judge_wait_s - self._judge_wait
        self._mark()
        self._learning = 0.0
        self._iteration += wall
        return {
            "time/step": seconds,
            **{f"time/wait_for_{what}": float(waited[what]) for what in WAITS},
            "time/wait_for_policy": held,
            "time/wait_for_judge": judge_wait,
            "time/judge": judge,
            "time/weight_sync": float(syncing),
            "trainer/idle_ratio": 1.0 - learning / seconds if seconds else 0.0,
            "rollouter/idle_ratio": max(0.0, 1.0 - busy / wall) if wall else 0.0,
            "throughput/train_tokens_per_sec": tokens / learning if learning else 0.0,
        }

    def iteration(self, episodes: int) -> dict[str, float]:
        """The iteration whose last step was just read. Its episodes are counted by all the time from step to step: the
        pauses and checkpoints in it too, but no evaluation that was played alone."""
        clock, meter = self.clock, self._meter
        collecting, tokens = meter.training_s - clock.collecting, meter.tokens - clock.sampled_tokens
        seconds, self._iteration = self._iteration, 0.0
        clock.collecting, clock.sampled_tokens = meter.training_s, meter.tokens
        clock.total += seconds
        clock.episodes += episodes
        rate = episodes / seconds if seconds else 0.0
        return {
            "throughput/gen_tokens_per_sec": tokens / collecting if collecting else 0.0,
            "throughput/samples_per_sec": rate,
            "throughput/episodes_per_min": 60.0 * rate,
        }
