"""The whole run, read from top to bottom: play groups, learn, sync, repeat (DESIGN 5).

Synchronous: an iteration's episodes are all played with the weights of the iteration before it (max_lag 0), and the
learner works while the engine rests. Both therefore use all cores, in turn.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from trainer.config import Loaded, RunConfig
from trainer.errors import RunError
from trainer.inference.engine import EngineError
from trainer.learner.client import LearnerError
from trainer.learner.protocol import Sequence as TrainSequence
from trainer.learner.protocol import StepResult
from trainer.recorder import Recorder
from trainer.rewards.advantages import GroupAdvantages, group_advantages
from trainer.rollout.episode import TRUNCATED, Assignment, Episode
from trainer.rollout.groups import Group, Tally, TooManyExcluded, collect, gather_all
from trainer.rollout.measures import evaluation_metrics, iteration_metrics
from trainer.rollout.player import Player, TaskAppFailing
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
            raise RunError("task_app_failing", str(error), "try it with one episode; see logs/taskapp.log") from None
        except TooManyExcluded as error:
            raise RunError("too_many_excluded", str(error), "mend the cause, or raise that key") from None
        except LearnerError as error:
            raise RunError(error.code, str(error), error.hint, error.evidence) from None
        except (EngineError, WeightSyncError) as error:
            raise RunError("engine_failed", str(error), "see logs/inference-0.log") from None

    async def _run(self) -> str:
        training, evaluation = self._config.training, self._config.evaluation
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
        return await collect(
            self._train.play,
            self._cursor,
            self._recorder.dropped,
            iteration=iteration,
            groups=self._derived["groups"],
            size=size,
            max_excluded_fraction=self._config.rollout.max_excluded_fraction,
        )

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
        recorder.accepted += self._derived["E"]
        rows = recorder.train_rows(groups)
        ordered = shuffled(groups, training.seed, iteration)
        updates = list(chunks([m for group in ordered for m in group.members], self._derived["U"]))
        collected_tokens = sum(m.sampled_tokens for group in groups for m in group.members)
        self.clock.collecting += collecting
        self.clock.episodes += self._derived["E"]
        self.clock.sampled_tokens += collected_tokens
        elapsed = collecting
        for k, members in enumerate(updates):
            first, last = k == 0, k == len(updates) - 1
            started = time.monotonic()
            step = recorder.step + 1
            sequences = self._sequences(members, advantages, lag=k)
            recorder.status(pipeline={"learner": "busy"})
            if sequences:
                result = await self._services.learner.step(step, sequences)
            else:
                result = StepResult(step, {"optim/skipped": 1.0}, [], skipped="every group is dead")
            learning = time.monotonic() - started
            if result.skipped is not None:
                recorder.warn("step_skipped", f"step {step} made no update: {result.skipped}")
            recorder.step = step
            syncing = await self._sync_weights(step, forced=last)
            self.clock.learning += learning
            self.clock.syncing += syncing
            seconds = time.monotonic() - started + (collecting if first else 0.0)
            elapsed += learning + syncing
            values = {
                "time/step": seconds,
                "time/wait_for_batch": collecting if first else 0.0,
                "time/weight_sync": syncing,
                "trainer/idle_ratio": 1.0 - learning / seconds,
                "rollouter/idle_ratio": 1.0 - (collecting if first else 0.0) / seconds,
                "batch/trainable_frac": len({s.n for s in sequences}) / len(members),
                "off_policy/mean": 0.0,
                "off_policy/max": 0.0,
                "throughput/train_tokens_per_sec": sum(len(s.ids) // 4 for s in sequences) / max(learning, 1e-9),
            }
            if last:
                values |= iteration_metrics(groups, list(advantages.values()), tally)
                values |= {
                    "throughput/gen_tokens_per_sec": collected_tokens / collecting,
                    "throughput/samples_per_sec": self._derived["E"] / elapsed,
                    "throughput/episodes_per_min": 60.0 * self._derived["E"] / elapsed,
                }
            recorder.step_done(result, rows, values, iteration=iteration, seconds=seconds)
        recorder.iteration = iteration
        self._finish_iteration(iteration, groups, advantages, tally)

    def _finish_iteration(
        self, iteration: int, groups: list[Group], advantages: dict[int, GroupAdvantages], tally: Tally
    ) -> None:
        rewards = np.array([member.total for group in groups for member in group.members], dtype=np.float64)
        self._last_reward = float(rewards.mean())
        self._recorder.status(iteration=iteration, epoch=self._recorder.epoch(iteration), pipeline={"learner": "idle"})
        self._recorder.event(
            "rl.iteration.complete",
            f"iteration {iteration}: reward {rewards.mean():.3f}",
            iteration=iteration,
            reward_mean=float(rewards.mean()),
            reward_std=float(rewards.std()),
            episodes=len(rewards),
            excluded=tally.excluded.total(),
            groups_zero_std=sum(a.dead for a in advantages.values()),
            groups_dropped=tally.dropped_groups,
        )

    def _sequences(
        self, members: Sequence[Episode], advantages: dict[int, GroupAdvantages], *, lag: int
    ) -> list[TrainSequence]:
        """What carries gradient in one update; what is left out after advantages is recorded with its reason."""
        sequences: list[TrainSequence] = []
        for episode in members:
            assignment = episode.assignment
            assert assignment.group is not None
            scored = advantages[assignment.group]
            if scored.dead:
                continue
            code, detail = self._left_out(episode)
            if code is not None:
                self._recorder.mask(episode, code, detail)
                continue
            advantage = float(scored.advantages[assignment.member])
            sequences.extend(
                TrainSequence(
                    n=episode.n,
                    branch=number,
                    group=assignment.group,
                    ids=np.asarray(branch.ids, dtype="<i4").tobytes(),
                    mask=np.asarray(branch.mask, dtype="u1").tobytes(),
                    logp_behavior=np.asarray(branch.logp, dtype="<f4").tobytes(),
                    advantage=advantage,
                    weight=branch.weight,
                    temperature=float(episode.calls[branch.calls[0]].sampling["temperature"]),
                    lag=lag,
                )
                for number, branch in enumerate(episode.branches)
            )
        return sequences

    def _left_out(self, episode: Episode) -> tuple[str | None, dict[str, Any]]:
        longest = max(len(branch.ids) for branch in episode.branches)
        limit = self._config.training.max_seq_len
        if longest > limit:
            return "too_long", {"tokens": longest, "limit": limit}
        if self._config.training.mask_truncated and episode.stop in TRUNCATED:
            return "truncated", {"tokens": longest, "stop": episode.stop}
        return None, {}

    async def _sync_weights(self, step: int, *, forced: bool) -> float:
        """Brings the new weights to the engine when a sync is due. Seconds that it took."""
        if self._sync is None or not (forced or step % self._config.training.weight_sync_interval == 0):
            return 0.0
        self._recorder.status(pipeline={"sync": "updating"})
        report = await self._sync.sync(self._recorder.weight_version + 1)
        self._recorder.synced(report)
        self._recorder.status(pipeline={"sync": "idle"})
        return report.seconds

    async def _checkpoint(self, iteration: int) -> None:
        recorder = self._recorder
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
            await asyncio.wait({task})

    @property
    def final_reward(self) -> float | None:
        """Mean reward of the last evaluation, else of the last iteration."""
        return self.evaluations.results()["last"] if self.evaluations.means else self._last_reward


def shuffled(groups: Sequence[Group], seed: int, iteration: int) -> list[Group]:
    """Groups in an order fixed by seed and iteration; members stay adjacent (CONFIG 3)."""
    ordered = sorted(groups, key=lambda group: group.index)
    random.Random(f"{seed}-{iteration}").shuffle(ordered)
    return ordered


def chunks(members: Sequence[Episode], size: int) -> Iterator[Sequence[Episode]]:
    """Updates of `size` episodes; the last may be smaller."""
    for start in range(0, len(members), size):
        yield members[start : start + size]
