"""The whole run, read from top to bottom: play groups, learn, sync, repeat (DESIGN 5).

Synchronous: an iteration's episodes are all played with the weights of the iteration before it (max_lag 0), and the
learner works while the engine rests. Both therefore use all cores, in turn.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from trainer.config import Loaded, RunConfig
from trainer.errors import EXIT_CONFIG, RunError, disk_full
from trainer.inference.engine import EngineError
from trainer.learner.client import LearnerError
from trainer.learner.protocol import StepResult
from trainer.recorder import Recorder
from trainer.rewards.advantages import group_advantages
from trainer.rollout.batch import Update, chunks, shuffled, update_of
from trainer.rollout.episode import Assignment, Episode
from trainer.rollout.groups import Group, Tally, TooManyExcluded, collect, gather_all
from trainer.rollout.measures import evaluation_metrics, iteration_metrics
from trainer.rollout.player import ModelUnfit, Player, TaskAppFailing
from trainer.rollout.seeds import SeedCursor, evaluation_plan
from trainer.services import Services
from trainer.taskapp.errors import TaskAppRejected
from trainer.weights.base import WeightSync, WeightSyncError

T = TypeVar("T")


@dataclass(slots=True)
class Clock:
    """Where the time of the training loop went, in seconds, and what it bought."""

    collecting: float = 0.0
    learning: float = 0.0
    syncing: float = 0.0
    episodes: int = 0
    sampled_tokens: int = 0

    @property
    def total(self) -> float:
        return self.collecting + self.learning + self.syncing


@dataclass(slots=True)
class Evaluations:
    """Mean rewards of the evaluations so far, by iteration."""

    means: dict[int, float] = field(default_factory=dict)

    def results(self) -> dict[str, float | None]:
        ordered = [self.means[i] for i in sorted(self.means)]
        if not ordered:
            return {"first": None, "last": None, "best": None}
        return {"first": ordered[0], "last": ordered[-1], "best": max(ordered)}


class Pipeline:
    """One attempt of a run, on services that are up."""

    def __init__(
        self,
        loaded: Loaded,
        services: Services,
        recorder: Recorder,
        sync: WeightSync | None,
        train: Player,
        evaluation: Player,
        cursor: SeedCursor,
        stopping: asyncio.Event,
    ) -> None:
        self._config: RunConfig = loaded.config
        self._derived = loaded.derived
        self._services, self._recorder, self._sync = services, recorder, sync
        self._train, self._evaluation, self._cursor = train, evaluation, cursor
        self._stopping = stopping
        self._last_reward: float | None = None
        self.clock = Clock()
        self.evaluations = Evaluations()

    async def run(self) -> str:
        """Trains to the end, or to the next clean place after a stop was asked.

        Returns:
            The end reason: completed, stopped or max_minutes.

        Raises:
            RunError: the cause that ended the run.
        """
        try:
            return await self._run()
        except TaskAppRejected as error:
            raise RunError("task_app_rejected", error.message, error.hint, error.evidence) from None
        except TaskAppFailing as error:
            ours = self._services.task_app is not None
            where = "see logs/taskapp.log" if ours else "see the log of the task app"
            raise RunError("task_app_failing", str(error), f"mend the task app; {where}") from None
        except ModelUnfit as error:
            raise RunError("no_tool_parser", str(error), exit_code=EXIT_CONFIG) from None
        except TooManyExcluded as error:
            raise RunError("too_many_excluded", str(error), "mend the cause, or raise that key") from None
        except LearnerError as error:
            if error.code == "disk_full":
                raise disk_full(self._recorder.writer.paths.root, error) from None
            raise RunError(error.code, str(error), error.hint, error.evidence) from None
        except (EngineError, WeightSyncError) as error:
            raise RunError("engine_failed", str(error), "see logs/inference-0.log") from None

    async def _run(self) -> str:
        training, evaluation = self._config.training, self._config.evaluation
        if self._sync is not None:
            await self._sync.start(self._recorder.weight_version)
        if evaluation is not None and not await self._evaluate(0):
            return "stopped"
        for iteration in range(1, self._derived["iterations"] + 1):
            self._recorder.phase("training")
            started = time.monotonic()
            batch = await self._unless_stopped(self._collect(iteration))
            if batch is None:
                break
            groups, tally = batch
            await self._learn(iteration, groups, tally, time.monotonic() - started)
            last = iteration == self._derived["iterations"]
            every = 0 if evaluation is None else evaluation.every_n_iters
            if evaluation is not None and (last or (every and iteration % every == 0)):
                if not await self._evaluate(iteration):
                    break
            due = self._config.checkpoint.every_n_iters
            if due and iteration % due == 0 and not last:
                await self._checkpoint(iteration)
            if self._out_of_time(training.max_minutes):
                break
        if self._recorder.step:
            await self._checkpoint(self._recorder.iteration)
        if self._stopping.is_set():
            return "stopped"
        return "completed" if self._recorder.iteration == self._derived["iterations"] else "max_minutes"

    # --- play -----------------------------------------------------------------------------------------------

    async def _collect(self, iteration: int) -> tuple[list[Group], Tally]:
        size = self._config.training.group_size
        collected = await collect(
            self._train.play,
            self._cursor,
            self._recorder.dropped,
            iteration=iteration,
            groups=self._derived["groups"],
            size=size,
            max_excluded_fraction=self._config.rollout.max_excluded_fraction,
        )
        for note in self._services.client.new_notes():
            self._recorder.warn("task_app", note)
        for note in self._services.new_engine_notes():
            self._recorder.warn("engine", note)
        return collected

    async def _evaluate(self, iteration: int) -> bool:
        """Plays the held-out seeds on the weights now served. False if a stop was asked meanwhile."""
        evaluation = self._config.evaluation
        assert evaluation is not None
        recorder = self._recorder
        recorder.phase("evaluating")
        recorder.event(
            "rl.eval.started",
            f"evaluation at iteration {iteration}",
            iteration=iteration,
            weight_version=recorder.weight_version,
        )
        plan = evaluation_plan(evaluation.seeds, evaluation.instances)
        limit = asyncio.Semaphore(evaluation.max_concurrent_rollouts)

        async def play(index: int, seed: int) -> Episode:
            async with limit:
                return await self._evaluation.play(
                    Assignment("eval", iteration, None, index // len(evaluation.seeds), seed)
                )

        episodes = await self._unless_stopped(gather_all([play(i, seed) for i, seed in enumerate(plan)]))
        if episodes is None:
            return False
        values = evaluation_metrics(episodes)
        recorder.metrics(values, iteration=iteration, eval_step=recorder.weight_updates)
        reward = values.get("eval/reward_mean")
        if reward is None:
            recorder.warn("evaluation_empty", f"no episode of the evaluation at iteration {iteration} has a reward")
        else:
            is_best = reward > max(self.evaluations.means.values(), default=-np.inf)
            self.evaluations.means[iteration] = reward
            recorder.event(
                "rl.eval.summary",
                f"held-out reward {reward:.3f} at iteration {iteration}",
                iteration=iteration,
                weight_version=recorder.weight_version,
                reward_mean=reward,
                reward_std=values["eval/reward_std"],
                instances=len(episodes),
                mixed=False,
                is_best=is_best,
            )
        return True

    # --- learn ----------------------------------------------------------------------------------------------

    async def _learn(self, iteration: int, groups: list[Group], tally: Tally, collecting: float) -> None:
        """The m optimizer updates of an iteration, each recorded, each followed by a sync where one is due."""
        recorder, training = self._recorder, self._config.training
        advantages = {
            group.index: group_advantages([m.reward.total for m in group.members if m.reward], training.advantage_std)
            for group in groups
        }
        for group in groups:
            recorder.group(group, advantages[group.index])
        closing = {
            **iteration_metrics(groups, list(advantages.values()), tally),
            **self._count_batch(groups, collecting),
        }
        lag = recorder.step - recorder.weight_updates  # of the batch, now that it closes
        recorder.batch_closed(self._derived["E"], lag, self._config.training.max_lag)
        ordered = shuffled(groups, training.seed, iteration)
        members = [member for group in ordered for member in group.members]
        parts = list(chunks(members, self._derived["U"]))
        spent = collecting
        for k, part in enumerate(parts):
            update = update_of(
                part,
                advantages,
                lag=lag + k,
                max_seq_len=training.max_seq_len,
                mask_truncated=training.mask_truncated,
            )
            waited, last = collecting if k == 0 else 0.0, k == len(parts) - 1
            times = await self._update(iteration, update, waited, lag, closing if last else {}, spent)
            spent += times
        recorder.iteration_done(iteration, groups, list(advantages.values()), tally)
        self._last_reward = closing["reward/mean"]

    def _count_batch(self, groups: list[Group], collecting: float) -> dict[str, float]:
        tokens = sum(member.sampled_tokens for group in groups for member in group.members)
        self.clock.collecting += collecting
        self.clock.episodes += self._derived["E"]
        self.clock.sampled_tokens += tokens
        return {"throughput/gen_tokens_per_sec": tokens / collecting}

    async def _update(
        self, iteration: int, update: Update, waited: float, lag: int, closing: dict[str, float], spent: float
    ) -> float:
        """One optimizer update and its sync; its line is written even if the sync fails. Seconds of both."""
        recorder, step = self._recorder, self._recorder.step + 1
        for masked in update.masked:
            recorder.mask(masked)
        started = time.monotonic()
        recorder.status(pipeline={"learner": "busy"})
        if update.sequences:
            result = await self._services.learner.step(step, update.sequences)
        else:
            result = StepResult(step, {}, [])  # nothing here carries gradient: counted in batch/trainable_frac
        learning, syncing = time.monotonic() - started, 0.0
        recorder.step = step
        recorder.status(pipeline={"learner": "idle"})
        try:
            syncing = await self._sync_weights(step, forced=bool(closing))
        finally:
            seconds = waited + learning + syncing
            self.clock.learning += learning
            self.clock.syncing += syncing
            values = {
                "time/step": seconds,
                "time/wait_for_batch": waited,
                "time/weight_sync": syncing,
                "trainer/idle_ratio": 1.0 - learning / seconds,
                "rollouter/idle_ratio": 1.0 - waited / seconds,
                "batch/trainable_frac": update.trainable_frac,
                "off_policy/mean": float(lag),
                "off_policy/max": float(lag),
                "throughput/train_tokens_per_sec": update.tokens / learning,
            }
            if closing:
                rate = self._derived["E"] / (spent + learning + syncing)
                values |= {**closing, "throughput/samples_per_sec": rate, "throughput/episodes_per_min": 60.0 * rate}
            recorder.step_done(result, update.members, values, iteration=iteration, lag=lag, seconds=seconds)
        return learning + syncing

    async def _sync_weights(self, step: int, *, forced: bool) -> float:
        """Brings the new weights to the engine when a sync is due. Seconds that it took."""
        if self._sync is None or not (forced or step % self._config.training.weight_sync_interval == 0):
            return 0.0
        self._recorder.status(pipeline={"sync": "updating"})
        report = await self._sync.sync(self._recorder.weight_version + 1)
        self._recorder.synced(report, self._services.present())
        return report.seconds

    async def _checkpoint(self, iteration: int) -> None:
        recorder = self._recorder
        if recorder.last_checkpoint_step == recorder.step:
            return
        recorder.phase("checkpointing")
        started = time.monotonic()
        await recorder.checkpoint(
            self._services.learner,
            iteration=iteration,
            reward={"train": self._last_reward, "eval": self.evaluations.means.get(iteration)},
            cursor={"seed": self._cursor.position, "wraps": self._cursor.wraps},
            facts={
                "trainer_mode": self._config.policy.trainer_mode,
                "base_model": {"name": self._services.model.name, "revision": self._services.model.revision},
            },
            keep_last=self._config.checkpoint.keep_last,
            keep_best=self._config.checkpoint.keep_best,
        )
        recorder.metrics({"time/checkpoint": time.monotonic() - started}, iteration=iteration)

    # --- ends -----------------------------------------------------------------------------------------------

    def _out_of_time(self, max_minutes: float | None) -> bool:
        if self._stopping.is_set():
            return True
        return max_minutes is not None and time.time() - self._recorder.started > 60.0 * max_minutes

    async def _unless_stopped(self, work: Coroutine[Any, Any, T]) -> T | None:
        """The result of `work`, or None when a stop came first; its unfinished episodes are given up."""
        task = asyncio.ensure_future(work)
        stop = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait({task, stop}, return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() else None
        finally:
            stop.cancel()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    @property
    def final_reward(self) -> float | None:
        """Mean reward of the last evaluation, else of the last iteration."""
        return self.evaluations.results()["last"] if self.evaluations.means else self._last_reward
