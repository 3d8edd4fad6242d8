"""Evaluation on one version: a pinned adapter, or no newer weights are sent to the engine while it plays (CONFIG 3)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from trainer.config import RunConfig
from trainer.inference.engine import Engine
from trainer.recorder import Recorder
from trainer.rollout.dispatcher import Dispatcher
from trainer.rollout.episode import Assignment
from trainer.rollout.measures import evaluation_metrics
from trainer.rollout.seeds import evaluation_plan

PARTS = {"env": "environment", "event": "judge of turns", "outcome": "judge"}  # of the reward


@dataclass(slots=True)
class Evaluations:
    """Mean rewards of the evaluations so far, by iteration."""

    means: dict[int, float] = field(default_factory=dict)

    def results(self) -> dict[str, float | None]:
        ordered = [self.means[i] for i in sorted(self.means)]
        if not ordered:
            return {"first": None, "last": None, "best": None}
        return {"first": ordered[0], "last": ordered[-1], "best": max(ordered)}


class Evaluator:
    """Plays one evaluation at a time, beside the training.

    Where the engine can pin a version, training and its syncs go on meanwhile. Elsewhere it serves every call the
    newest version that it was sent, so none is sent.
    """

    def __init__(
        self,
        config: Callable[[], RunConfig],
        dispatcher: Dispatcher,
        engine: Engine,
        recorder: Recorder,
        means: dict[int, float],
        ended: Callable[[], Awaitable[None]],
    ) -> None:
        """ended: called after each; newer weights may be sent again."""
        self.evaluations = Evaluations(means)
        self._config, self._dispatcher, self._engine = config, dispatcher, engine
        self._recorder, self._ended = recorder, ended
        self._task: asyncio.Task[None] | None = None
        self.playing = False

    def due(self, iteration: int, iterations: int) -> bool:
        """Before the first iteration, after every n-th and after the last."""
        evaluation = self._config().evaluation
        if evaluation is None:
            return False
        every = evaluation.every_n_iters
        return iteration in (0, iterations) or bool(every and iteration % every == 0)

    @property
    def holds_weights(self) -> bool:
        """Newer weights must wait for the evaluation that plays."""
        return self.playing and not self._engine.pins

    async def begin(self, iteration: int) -> None:
        """Starts on the weights that serve now. Not while another one plays. Raises EngineError."""
        assert not self.playing
        pinned = await self._engine.pin() if self._engine.pins else None
        self.playing = True
        served = self._recorder.weight_version, self._recorder.weight_updates
        self._task = asyncio.ensure_future(self._run(iteration, *served, pinned))

    async def finish(self) -> None:
        """Returns when none plays, and what waited for that has been done."""
        if self._task is not None:
            await self._task
            self._task = None

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self, iteration: int, version: int, updates: int, pinned: int | None) -> None:
        try:
            try:
                await self._play(iteration, version, updates, pinned)
            finally:
                self.playing = False
            if pinned is not None:
                await self._engine.unpin()
            await self._ended()
        except Exception as error:
            self._dispatcher.fail(error)  # the learner may be waiting for a batch, and not for us
            raise

    async def _play(self, iteration: int, version: int, updates: int, pinned: int | None) -> None:
        evaluation, recorder = self._config().evaluation, self._recorder
        assert evaluation is not None
        where = {"iteration": iteration, "weight_version": version}
        recorder.event("rl.eval.started", f"evaluation at iteration {iteration}", **where)
        plan = evaluation_plan(evaluation.seeds, evaluation.instances)
        plays = [Assignment("eval", iteration, None, repeat, seed, version=pinned) for seed, repeat in plan]
        episodes = await self._dispatcher.evaluate(plays, evaluation.max_concurrent_rollouts)
        values = evaluation_metrics(episodes)
        recorder.metrics(values, iteration=iteration, eval_step=updates, weight_version=version)
        reward = values.get("eval/reward_mean")
        if reward is None:
            recorder.warn("evaluation_empty", f"no episode of the evaluation at iteration {iteration} has a reward")
            return
        is_best = reward > max(self.evaluations.means.values(), default=-float("inf"))
        self.evaluations.means[iteration] = reward
        recorder.event(
            "rl.eval.summary",
            f"held-out reward {reward:.3f}{_parts(values)} at iteration {iteration}",
            **where,
            reward_mean=reward,
            reward_std=values["eval/reward_std"],
            **{f"reward_{name}": values[f"eval/reward_{name}"] for name in PARTS if f"eval/reward_{name}" in values},
            instances=len(episodes),
            mixed=any(episode.versions != (version, version) for episode in episodes if episode.calls),
            is_best=is_best,
        )


def _parts(values: Mapping[str, float]) -> str:
    """Environment and judge apart, where there is a judge."""
    found = {words: values[f"eval/reward_{name}"] for name, words in PARTS.items() if f"eval/reward_{name}" in values}
    return f" ({', '.join(f'{words} {value:.3f}' for words, value in found.items())})" if len(found) > 1 else ""
