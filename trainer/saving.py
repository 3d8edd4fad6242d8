"""Checkpoints of a run: whether there is room, what state.json holds, and which older ones stay (WIRE 5.9)."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from trainer.config import RunConfig
from trainer.control_room import ControlRoom
from trainer.learner.client import LearnerProcess
from trainer.learner.protocol import LearnerInfo
from trainer.recorder import Recorder
from trainer.resume import Restored, state_of
from trainer.rundir.checkpoints import (
    Checkpoint,
    begin_checkpoint,
    checkpoint_name,
    finish_checkpoint,
    list_checkpoints,
    point,
    prune,
    read_checkpoint,
)
from trainer.rundir.need import Need, checkpoint_need
from trainer.rundir.patient import PatientWriter
from trainer.rundir.resume import Resumed

GIB = 2**30
T = TypeVar("T")


def estimate(info: LearnerInfo, config: RunConfig) -> Need:
    """Of one checkpoint of this learner."""
    return checkpoint_need(config.policy.trainer_mode, config.training.dtype, info.parameters, info.trainable)


async def _to_its_end(work: Callable[..., T], *args: Any) -> T:
    """What `work` gives, from a thread. A thread cannot be cancelled: a caller that is, leaves once it has ended."""
    working = asyncio.ensure_future(asyncio.to_thread(work, *args))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        while not working.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([working])
        working.exception()  # of no matter to who leaves
        raise


class Saved(NamedTuple):
    """What the newest checkpoint is of."""

    step: int = 0
    evaluated: float | None = None
    asked: bool = False  # by a person


class CheckpointSaver:
    """Saves the run between two iterations, and knows what it has saved."""

    def __init__(
        self,
        recorder: Recorder,
        writer: PatientWriter,
        room: ControlRoom,
        learner: LearnerProcess,
        model: Mapping[str, Any],
        need: Need,
        *,
        restored: Restored | None = None,
        resumes: list[Resumed] | None = None,
    ) -> None:
        self._recorder, self._writer, self._room, self._learner = recorder, writer, room, learner
        self._model, self._need, self._resumes = model, need, resumes or []
        self._folder = writer.paths.checkpoints
        self._saved = Saved()
        if restored is not None and (found := read_checkpoint(restored.checkpoint)) is not None:
            self._saved = Saved(restored.step, found.eval_reward, found.asked)
        self.best = restored.best if restored else None
        self.checkpoints = self._listed()

    def warn_of_room(self) -> None:
        """Before training: whether what is going to be kept fits."""
        config = self._room.config
        kept = config.checkpoint.keep_last + config.checkpoint.keep_best
        needs, free = self._need.kept(kept), self._free()
        if needs > free:
            self._recorder.warn(
                "disk_short",
                f"checkpoints will need about {needs / GIB:.2g} GiB and {free / GIB:.2g} GiB are free: lower "
                "checkpoint.keep_last, or set checkpoint.dir to a larger disk; on a full disk the run pauses",
            )

    async def save(
        self,
        *,
        iteration: int,
        reward: Mapping[str, float | None],
        cursor: Mapping[str, Any],
        evaluations: Mapping[int, float],
        last_reward: float | None = None,
        canary: Any = None,
        judged: Sequence[tuple[float, float]] = (),
        empty: int = 0,
    ) -> None:
        """A checkpoint of this step, unless there is one. On a full disk the run pauses until there is room.

        One that is evaluated or asked for only after it was made is made again: it is to say so.

        Args:
            reward: {train, eval}; the best one is chosen by evaluation where there is any.
            cursor: of the seeds, after the last closed batch.
            empty: iterations in a row without gradient.
            evaluations: mean reward of each so far, by iteration.
        """
        recorder = self._recorder
        name = checkpoint_name(recorder.step)
        wanted, known = self._room.wants("checkpoint"), self._saved.step == recorder.step
        saved = Saved(recorder.step, reward["eval"], wanted or (known and self._saved.asked))
        if saved == self._saved:
            self._answer(wanted, name)
            return
        if self._room.admitting:
            recorder.phase("checkpointing")
        started = time.monotonic()
        if self._free() < self._need.newest:
            recorder.warn(
                "disk_short",
                f"a checkpoint needs {self._need.newest / GIB:.2g} GiB and {self._free() / GIB:.2g} GiB are free in "
                f"{self._folder}: the run waits until there is room",
            )
            await self._room.wait_for_room(lambda: self._free() >= self._need.newest)
        score = reward["train"] if self._room.config.evaluation is None else reward["eval"]
        # Rewards of training and of evaluation are not compared: with an evaluation, only evaluated steps compete.
        rival = None if self.best is None or self.best["step"] == recorder.step else self.best
        is_best = score is not None and (rival is None or score > rival["reward"])
        place = {"step": recorder.step, "iteration": iteration, "reward": score, "path": f"checkpoints/{name}"}
        if is_best:
            self.best = place
        facts = {
            "cursor": dict(cursor),
            "evaluations": dict(evaluations),
            "last_reward": last_reward if last_reward is not None else reward["train"],
            "canary": canary,
            "judged": list(judged),
            "empty": empty,
        }
        done = await self._room.with_room(lambda: self._build(iteration, dict(reward), facts, is_best, saved.asked))
        await self._room.with_room(lambda: _to_its_end(self._settle, done, is_best))
        self._saved = saved
        self.checkpoints = self._listed()
        recorder.event(
            "rl.checkpoint.saved",
            f"checkpoint of step {recorder.step}",
            iteration=iteration,
            path=place["path"],
            reward=score,
            is_best=is_best,
        )
        recorder.status(last_checkpoint=place, best=self.best)
        recorder.metrics({"time/checkpoint": time.monotonic() - started}, iteration=iteration)
        self._answer(saved.asked, name)

    def _answer(self, asked: bool, name: str) -> None:
        """Who asks while one is made that nobody had asked for gets the next one: it is to stay."""
        if asked:
            self._room.done("checkpoint", path=f"checkpoints/{name}")

    async def _build(
        self, iteration: int, reward: dict[str, float | None], facts: dict[str, Any], is_best: bool, asked: bool
    ) -> Checkpoint:
        """The learner fills a folder aside; then sums, rename, and STABLE last."""
        recorder = self._recorder
        aside = await asyncio.to_thread(begin_checkpoint, self._folder, recorder.step)
        try:
            await self._learner.checkpoint(aside, self._state(iteration, facts))
            self._writer.sync()
            final = self._folder / checkpoint_name(recorder.step)
            manifest = {**self._manifest(iteration), "reward": reward, "is_best": is_best, "asked": asked}
            return await _to_its_end(finish_checkpoint, aside, final, manifest)
        except BaseException:
            shutil.rmtree(aside, ignore_errors=True)  # a half-built one would keep the disk full
            raise

    def _settle(self, done: Checkpoint, is_best: bool) -> None:
        config = self._room.config
        point(self._folder, "latest", done)
        if is_best:
            point(self._folder, "best", done)
        prune(self._folder, config.checkpoint.keep_last, config.checkpoint.keep_best, self._resumes)

    def _state(self, iteration: int, facts: Mapping[str, Any]) -> dict[str, Any]:
        recorder = self._recorder
        tokens, excluded = recorder.settled()
        return state_of(
            {
                "step": recorder.step,
                "iteration": iteration,
                "epoch": recorder.epoch(iteration),
                "attempt": self._writer.attempt,
                "weight_version": recorder.weight_version,
                "weight_updates": recorder.weight_updates,
                "next_n": self._writer.next_n,
                "next_seq": self._writer.last_seq + 1,
                "best": self.best,
                "accepted": recorder.accepted,
                "excluded": excluded,
                "groups_dropped": recorder.dropped_groups,
                "sampled_tokens": tokens,
                "live": dict(self._room.live),
                **facts,
            }
        )

    def _manifest(self, iteration: int) -> dict[str, Any]:
        return {
            "job_id": self._writer.job_id,
            "step": self._recorder.step,
            "iteration": iteration,
            "attempt": self._writer.attempt,
            "world_size": self._learner.ranks,
            "trainer_mode": self._room.config.policy.trainer_mode,
            "base_model": dict(self._model),
        }

    def _listed(self) -> list[dict[str, Any]]:
        return [
            {"step": c.step, "iteration": c.iteration, "path": f"checkpoints/{c.path.name}"}
            for c in list_checkpoints(self._folder)
        ]

    def _free(self) -> int:
        folder = self._folder if self._folder.exists() else Path(self._writer.paths.root)
        return shutil.disk_usage(folder).free
