"""Weights that a running server has already: nothing is sent, and its canary is the one of a sync."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from trainer.inference.vllm.engine import VllmEngine
from trainer.learner.client import LearnerProcess
from trainer.weights.base import SyncReport, WeightSync
from trainer.weights.canary import Finding, Reading, candidates, judge
from trainer.weights.readings import ask_engine, ask_learner, prefixes_of


class ServedAdapter(WeightSync):
    """An adapter beside its base: the base is asked before, and the adapter from the first `sync` on."""

    def __init__(self, engine: VllmEngine, name: str) -> None:
        self._engine, self._name = engine, name

    async def sync(self, version: int) -> SyncReport:
        self._engine.ask_for(self._name)
        return SyncReport(version=version, seconds=0.0, bytes=0, mode="lora", rounding_gap=0.0)


async def judge_served(
    engine: VllmEngine, learner: LearnerProcess, load: Callable[[], Awaitable[object]], noise: float
) -> Finding:
    """Of a server whose own model has the weights already. It cannot be asked for those before them, so the learner's
    stand for both. Raises EngineError, LearnerError.

    Args:
        load: brings the learner from the start weights to those that are served.
        noise: between such an engine and the learner, in nats.
    """
    prefixes = await prefixes_of(engine)
    tops = await ask_engine(engine, prefixes)
    tokens, served = candidates(tops)
    [start] = await ask_learner(learner, prefixes, [tokens])
    await load()
    [now] = await ask_learner(learner, prefixes, [tokens])
    return judge(Reading(tokens, start, start), tops, now, Reading(tokens, served, now), noise)
