"""The whole run, read from top to bottom: play, learn, bring new weights to the engine that goes on playing (DESIGN 5).

Two things go on at once (PipelineRL, arXiv 2509.19128). The dispatcher plays episodes as far ahead as admission lets
it; this loop closes one iteration's batch after the other, makes its updates, and syncs after each. What is being
generated meanwhile goes on under the newer weights: every token knows its version. With max_lag 0 neither is ahead of
the other, and what comes out is what a plain loop gives.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Literal, TypeVar

from trainer.config import Loaded
from trainer.control_room import ControlRoom, NoRoom
from trainer.evaluation import Evaluator
from trainer.failures import EMPTY_LIMIT, nothing_to_learn, run_error
from trainer.lag import Contained, Lags
from trainer.learner.protocol import StepResult
from trainer.outage import Outage, TaskAppGone
from trainer.present import Present
from trainer.recorder import Recorder
from trainer.resume import Restored
from trainer.rewards.advantages import scorer
from trainer.rollout.batch import Update, updates_of
from trainer.rollout.dispatcher import Dispatcher
from trainer.rollout.groups import Group, Tally
from trainer.rollout.judging import Judging
from trainer.rollout.measures import iteration_metrics
from trainer.rollout.meter import Meter
from trainer.rollout.player import Player
from trainer.rollout.seeds import SeedCursor
from trainer.rollout.sizes import Sizes
from trainer.saving import CheckpointSaver
from trainer.services import Services
from trainer.timing import Timing
from trainer.waiting import MISSING, Waits, unless, within
from trainer.watch import Watch
from trainer.weights.base import WeightSyncMismatch
from trainer.weights.verified import VerifiedSync

T = TypeVar("T")

NOTES_S = 2.0  # between two looks at what engine and task app have to say


class Pipeline:
    """One attempt of a run, on services that are up."""

    def __init__(
        self,
        loaded: Loaded,
        services: Services,
        recorder: Recorder,
        sync: VerifiedSync | None,
        train: Player,
        evaluation: Player,
        cursor: SeedCursor,
        stopping: asyncio.Event,
        saver: CheckpointSaver,
        room: ControlRoom,
        restored: Restored | None = None,
        meter: Meter | None = None,
        judging: Judging | None = None,
    ) -> None:
        self._derived = loaded.derived
        self._services, self._recorder, self._sync = services, recorder, sync
        self._saver, self._room, self._restored, self._stopping = saver, room, restored, stopping
        self._judging = judging
        self._contained = Contained(recorder.weight_version, recorder.weight_updates)
        self._outage = Outage(services.client.is_up, lambda: room.config.rollout.timeout_s)
        self._dispatcher = Dispatcher(
            train.play,
            evaluation.play,
            cursor,
            Sizes.of(loaded.config, self._derived),
            scorer(loaded.config.algorithm.variety, loaded.config.training.advantage_std),
            self._contained,
            recorder,
            self._outage,
            max_concurrent=loaded.config.rollout.max_concurrent_rollouts,
            max_lag=self._lag_limit,
            closed=recorder.iteration,
            version=recorder.weight_version,
            meter=meter,
        )
        self._waits = Waits()
        self._timing = Timing(self._waits, self._dispatcher.meter)
        self._turn = asyncio.Lock()  # whoever uses the learner: an update, or the sync that an evaluation put off
        means = dict(restored.evaluations) if restored else {}
        self._evaluator = Evaluator(
            lambda: room.config, self._dispatcher, services.engine, recorder, means, self._sync_put_off
        )
        self._owes_sync = False
        self._empty = restored.empty if restored else 0  # iterations in a row without gradient
        self._last_reward: float | None = restored.last_reward if restored else None
        self.clock, self.evaluations = self._timing.clock, self._evaluator.evaluations
        room.on_change(self._changed)

    async def run(self) -> str:
        """Trains to the end, or to the next clean place after a stop was asked.

        Returns:
            The end reason: completed, stopped or max_minutes.

        Raises:
            RunError: the cause that ended the run.
        """
        ledger, learner, judging = self._services.gateway.ledger, self._services.learner, self._judging
        present = Present(self._dispatcher, self._waits, self._outage, ledger, self._recorder, learner, judging)
        watch = Watch(self._recorder, present, lambda: not self._room.admitting)
        works = (watch.run(), self._open_nothing_once_stopped(), self._sit_out_outages(), self._tell_notes())
        beside = [asyncio.ensure_future(work) for work in works]
        try:
            return await self._run()
        except NoRoom as error:
            self._recorder.warn("disk_full", f"{error}: steps after the last checkpoint are lost to a resume")
            return "stopped"
        except Exception as error:
            serves = self._services.task_app is not None
            known = run_error(error, root=self._recorder.writer.paths.root, serves_task_app=serves)
            if known is None:
                raise
            raise known from None
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
            self._new_notes()
            await self._evaluator.close()
            await self._dispatcher.close()

    async def _run(self) -> str:
        recorder, iterations = self._recorder, self._derived["iterations"]
        await self._bring_first_weights()
        if recorder.iteration not in self.evaluations.means and self._evaluator.due(recorder.iteration, iterations):
            await self._evaluate(recorder.iteration)
            if recorder.step:  # its checkpoint was made before its reward was known
                await self._save_evaluated()
        self._timing.begin()
        first = recorder.iteration + 1
        for iteration in range(first, iterations + 1):
            recorder.phase("training")
            self._open(True)
            try:  # an attempt makes one iteration at least, however long it took to load
                batch = await self._next_batch(iteration, limited=iteration != first)
            except TaskAppGone:
                if recorder.step:
                    await self._checkpoint()  # a resume loses nothing
                raise
            if batch is None:
                break
            await self._learn(iteration, *batch)
            await self._room.iteration_ended(self._checkpoint)
            if self._evaluator.due(iteration, iterations) or self._room.wants("evaluate"):
                await self._evaluate(iteration)
            every = self._room.config.checkpoint.every_n_iters
            if self._room.wants("checkpoint") or (every and iteration % every == 0 and iteration < iterations):
                await self._save_evaluated()
            if self._stopping.is_set() or recorder.budget_s == 0.0:
                break
        await self._save_evaluated()
        if self._stopping.is_set():
            return "stopped"
        return "completed" if recorder.iteration == iterations else "max_minutes"

    # --- play -----------------------------------------------------------------------------------------------

    async def _next_batch(self, iteration: int, *, limited: bool) -> tuple[list[Group], Tally] | None:
        """None: the run was asked to stop, or its time is over (`limited`)."""
        dispatcher, room = self._dispatcher, self._room
        while True:
            left = self._recorder.budget_s if limited else None
            if not await self._unless_stopped(within(left, self._batch_or_wish(iteration))):
                return None
            if room.saves_in_pause:
                await self._checkpoint()
            elif self._deadlocked(iteration):
                self._owes_sync = True
                await self._sync_put_off()
            elif room.admitting and dispatcher.missing(iteration) is None:
                # At once: a pause that came between this and the first update would find the run within an iteration.
                return dispatcher.take(iteration)

    async def _batch_or_wish(self, iteration: int) -> Literal[True]:
        """Returns once the groups of `iteration` are there, and all that would be too old for the next.

        Not while the run is paused: it rests between two iterations. Then it returns when a checkpoint is asked for.
        And where nothing would come before newer weights serve.
        """
        dispatcher = self._dispatcher
        while (what := dispatcher.missing(iteration)) is not None or not self._room.admitting:
            if self._room.saves_in_pause or self._deadlocked(iteration):
                return True
            if what is None:
                self._waits.over("learner")
                await dispatcher.changed()
                continue
            overdue = dispatcher.drop_overdue(iteration) if what == "straggler" else None
            if what == "batch" and self._evaluator.holds_weights and dispatcher.waits_for_policy:
                what = "eval"
            with self._waits.of("learner", what, MISSING[what].format(iteration)):
                await dispatcher.changed(overdue)
        self._waits.over("learner")
        return True

    def _deadlocked(self, iteration: int) -> bool:
        """No group may open before a sync, and no sync is due before the next step: a max_lag that was lowered."""
        waits = self._dispatcher.waits_for_policy and not self._dispatcher.running
        behind = self._recorder.weight_updates < self._recorder.step and not self._evaluator.holds_weights
        return waits and behind and self._sync is not None and self._dispatcher.missing(iteration) == "batch"

    async def _evaluate(self, iteration: int) -> None:
        """On the weights that serve now. Training goes on beside it, unless it is synchronous or over."""
        alone = self._lag_limit == 0 or iteration == self._derived["iterations"]
        if alone:
            self._recorder.phase("evaluating")
            self._open(False)
        await self._unless_stopped(self._until_evaluated())
        if self._stopping.is_set():
            return
        await self._evaluator.begin(iteration)
        if alone or self._room.wants("evaluate"):
            await self._unless_stopped(self._until_evaluated())
            self._room.done("evaluate")
        if alone:
            self._timing.begin()  # what is played and learned in turns has not waited for each other

    async def _until_evaluated(self) -> None:
        with self._waits.of("learner", "eval", "the episodes of an evaluation"):
            await self._evaluator.finish()
        self._waits.over("learner")

    # --- learn ----------------------------------------------------------------------------------------------

    async def _learn(self, iteration: int, groups: list[Group], tally: Tally) -> None:
        """The m optimizer updates of an iteration, each recorded, each followed by a sync where one is due."""
        recorder = self._recorder
        lags = Lags.at_close(groups, self._contained, recorder.step, self._lag_limit)
        for group in groups:
            recorder.group(group, iteration)
        recorder.batch_closed(lags)
        updates = updates_of(groups, iteration, self._derived["U"], lags, self._room.config.training)
        closing = iteration_metrics(groups, tally)
        if self._judging is not None:
            closing |= self._judging.closing([member for group in groups for member in group.members])
        await self._anchor(updates)
        stale = sum(masked.code == "stale" for update in updates for masked in update.masked)
        closing["off_policy/dropped"] = float(tally.excluded["stale"] + stale)
        for update in updates:
            await self._update(iteration, update, lags, closing if update is updates[-1] else {})
        recorder.iteration_done(iteration, groups, tally)
        self._last_reward = closing["reward/mean"]
        self._empty = 0 if any(update.sequences for update in updates) else self._empty + 1
        if self._empty >= EMPTY_LIMIT:
            raise nothing_to_learn(iteration, self._last_reward)

    async def _anchor(self, updates: list[Update]) -> None:
        """Proximal log-probabilities, with the weights before the iteration's first update (DESIGN 4)."""
        if self._room.config.training.anchor != "proximal" or not any(update.sequences for update in updates):
            return
        async with self._turn, self._room.step(), self._services.engine.asleep():
            with self._timing.learning():
                result = await self._services.learner.anchor([update.sequences for update in updates])
        for update in updates:
            update.take_anchor(result)

    async def _update(self, iteration: int, update: Update, lags: Lags, closing: dict[str, float]) -> None:
        """One optimizer update and its sync; its line is written even if the sync fails."""
        recorder, step = self._recorder, self._recorder.step + 1
        for masked in update.masked:
            recorder.mask(masked, iteration)
        async with self._turn, self._room.step():
            recorder.status(pipeline={"learner": "busy"})
            result = await self._step(step, update)
            recorder.step = step
            recorder.status(pipeline={"learner": "idle"})
            own = lags.among(update.members)
            values = {"batch/trainable_frac": update.trainable_frac}
            values |= {"off_policy/mean": own.mean, "off_policy/max": float(own.max)}
            try:
                values |= await self._sync_if_due(step)
            except WeightSyncMismatch as error:
                values |= error.report.metrics()
                recorder.not_synced(error.report)
                raise
            finally:
                values |= self._timing.step(update.tokens)
                if closing:
                    values |= {**closing, **self._timing.iteration(self._derived["E"])}
                seconds = values["time/step"]
                recorder.step_done(result, update, values, iteration=iteration, lags=own, seconds=seconds)

    async def _step(self, step: int, update: Update) -> StepResult:
        """An update that nothing carries gradient for is none, and counted."""
        if not update.sequences:
            return StepResult(step, {"optim/skipped": 1.0}, [])
        services = self._services
        async with services.engine.asleep():
            with self._timing.learning():
                if services.reference is not None and self._room.config.training.kl_coef > 0:
                    await services.reference.fill(update.sequences)
                return await services.learner.step(step, update.sequences)

    # --- weights --------------------------------------------------------------------------------------------

    async def _bring_first_weights(self) -> None:
        """What the engine needs before the first call; on a resume, the weights of the checkpoint."""
        if self._sync is None:
            return
        if self._restored is None:
            await self._sync.start(self._recorder.weight_version)
            return
        self._sync.restore_canary(self._restored.canary)
        await self._sync_weights(self._restored.weight_version)

    async def _sync_if_due(self, step: int) -> dict[str, float]:
        """Brings the new weights to the engine when a sync is due and no evaluation holds it. What the canary says."""
        ends_iteration = step % self._derived["m"] == 0
        synchronous = self._room.config.training.max_lag == 0
        due = step % self._room.config.training.weight_sync_interval == 0
        self._owes_sync |= due or (synchronous and ends_iteration) or step == self._derived["steps"]
        if self._sync is None or not self._owes_sync or self._evaluator.holds_weights:
            return {}
        return await self._sync_weights(self._recorder.weight_version + 1)

    async def _sync_put_off(self) -> None:
        """Between two steps: the sync that was due while an evaluation played, or without which no step comes."""
        async with self._turn, self._room.step():
            if self._sync is not None and self._owes_sync and not self._evaluator.holds_weights:
                try:
                    await self._sync_weights(self._recorder.weight_version + 1)
                except WeightSyncMismatch as error:
                    self._recorder.not_synced(error.report)
                    raise

    async def _sync_weights(self, version: int) -> dict[str, float]:
        sync, recorder = self._sync, self._recorder
        assert sync is not None
        self._contained.note(version, recorder.step)
        sync.verify_every_k = self._room.config.training.weight_sync.verify_every_k
        recorder.status(pipeline={"sync": "updating"})
        with self._waits.of("engine", "sync", f"the weights of step {recorder.step}"), self._timing.working():
            report = await self._room.with_room(lambda: sync.sync(version))
        self._waits.over("engine")
        self._owes_sync = False
        recorder.synced(report, self._services.present())
        self._dispatcher.serve(version)
        return report.metrics()

    async def _save_evaluated(self) -> None:
        """The reward of an evaluation that plays is the checkpoint's."""
        await self._unless_stopped(self._until_evaluated())
        if self._recorder.step:
            await self._checkpoint()

    async def _checkpoint(self) -> None:
        recorder = self._recorder
        await self._saver.save(
            iteration=recorder.iteration,
            reward={"train": self._last_reward, "eval": self.evaluations.means.get(recorder.iteration)},
            cursor=self._dispatcher.cursor(),
            evaluations=self.evaluations.means,
            last_reward=self._last_reward,
            canary=self._sync.canary_state() if self._sync is not None else None,
            judged=self._judging.pairs if self._judging is not None else (),
            empty=self._empty,
        )

    # --- what changes while it runs, and ends ----------------------------------------------------------------

    @property
    def _lag_limit(self) -> int | None:
        """None where weights are never synced: the lag then grows with every step, and nothing can be done."""
        return None if self._sync is None else self._room.config.training.max_lag

    def _changed(self) -> None:
        """A live key, or a pause."""
        dispatcher, config = self._dispatcher, self._room.config
        dispatcher.max_concurrent = config.rollout.max_concurrent_rollouts
        dispatcher.max_lag, dispatcher.admitting = self._lag_limit, self._room.admitting
        self._recorder.log_interval = config.training.log_interval
        dispatcher.fill()

    def _open(self, opening: bool) -> None:
        """Whether new training groups may be opened."""
        self._dispatcher.opening = opening and not self._stopping.is_set()
        self._dispatcher.fill()

    async def _open_nothing_once_stopped(self) -> None:
        await self._stopping.wait()
        reference = self._services.reference
        for process in (self._services.learner, *(reference.processes if reference is not None else ())):
            process.limit.ending = True  # one that hangs does not hold up the end
        self._open(False)

    async def _sit_out_outages(self) -> None:
        try:
            await self._outage.run(self._dispatcher.fill)
        except TaskAppGone as error:
            self._dispatcher.fail(error)

    async def _tell_notes(self) -> None:
        """As they come: an engine that was started again is told while the run waits for it."""
        while True:
            self._new_notes()
            await asyncio.sleep(NOTES_S)

    def _new_notes(self) -> None:
        for code, note in self._services.new_notes():
            self._recorder.warn(code, note)

    async def _unless_stopped(self, work: Coroutine[Any, Any, T]) -> T | None:
        return await unless(self._stopping, work)

    @property
    def final_reward(self) -> float | None:
        """Mean reward of the last evaluation, else of the last iteration."""
        return self.evaluations.results()["last"] if self.evaluations.means else self._last_reward
