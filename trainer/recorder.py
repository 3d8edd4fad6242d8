"""Writes what the pipeline does into the run directory, and keeps the numbers of the present."""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from trainer.config import RunConfig
from trainer.errors import disk_full
from trainer.learner.client import LearnerProcess
from trainer.learner.protocol import SequenceResult, StepResult
from trainer.rewards.advantages import GroupAdvantages
from trainer.rollout.batch import Masked
from trainer.rollout.episode import Episode
from trainer.rollout.groups import Group, Tally
from trainer.rollout.player import PlayRules
from trainer.rollout.transcript import episode_record
from trainer.rundir import DiskFull, RunWriter
from trainer.rundir.checkpoints import (
    begin_checkpoint,
    checkpoint_name,
    finish_checkpoint,
    list_checkpoints,
    point,
    prune,
)
from trainer.rundir.jsonl import iso
from trainer.rundir.logs import LogFile
from trainer.rundir.records import GroupRecord
from trainer.rundir.status import Child, Warned
from trainer.taskapp.codes import WARNINGS
from trainer.weights.base import SyncReport

T = TypeVar("T")
ETA_STEPS = 20  # the remaining time follows from the median of that many steps


class Recorder:
    """All writes of a run go through here; a full disk becomes a RunError that names the folder."""

    def __init__(self, writer: RunWriter, derived: Mapping[str, int], config: RunConfig) -> None:
        self.writer = writer
        self.step = self.iteration = 0  # done so far
        self.weight_version = self.weight_updates = 0
        self.accepted = self.dropped_groups = self.sampled_tokens = 0
        self.excluded: dict[str, int] = {}
        self.best: dict[str, Any] | None = None  # checkpoint with the highest reward
        self.checkpoints: list[dict[str, Any]] = []
        self.last_checkpoint_step = 0
        self.started = time.time()
        self._derived = derived
        self._per_epoch, self._log_interval = config.training.iterations_per_epoch, config.training.log_interval
        self._evaluates = config.evaluation is not None
        self._step_seconds: deque[float] = deque(maxlen=ETA_STEPS)

    # --- writing ------------------------------------------------------------------------------------------

    def _write(self, write: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        try:
            return write(*args, **kwargs)
        except DiskFull as error:
            raise disk_full(self.writer.paths.root, error) from None

    def event(self, type_: str, message: str, *, level: str = "info", **data: Any) -> None:
        self._write(self.writer.event, type_, message, step=self.step, level=level, **data)

    def log(self, text: str) -> None:
        """Adds to logs/coordinator.log, which viewers name when the cause is ours."""
        with LogFile(self.writer.paths.log("coordinator")) as log:
            log.write(text.encode() + b"\n")

    def status(self, **changes: Any) -> None:
        self._write(self.writer.status, **changes)

    def phase(self, phase: str, *, waiting: dict[str, Any] | None = None) -> None:
        self.status(phase=phase, waiting=waiting)
        self.event("rl.phase", phase, phase=phase, **({} if waiting is None else {"for": waiting["for"]}))

    def warn(self, code: str, text: str) -> None:
        """A warning of the whole run: an event, and an entry of status.json."""
        known = list(self.writer.document.warnings)
        for entry in known:
            if (entry.code, entry.text) == (code, text):
                entry.count += 1
                entry.last_at = iso(time.time())
                break
        else:
            known.append(Warned(code=code, text=text, last_at=iso(time.time())))
            self.event("rl.warning", text, level="warning", code=code)
        self.writer.note(warnings=known)  # written with the next beat

    def sync(self) -> None:
        self._write(self.writer.sync)

    def beat(self, children: Sequence[Child], present: Mapping[str, Any]) -> None:
        """The sign of life, with the processes that belong to the run and what else changes unasked."""
        self.writer.note(children=list(children), **present)
        self._write(self.writer.beat)

    # --- episodes and groups --------------------------------------------------------------------------------

    def episode(self, episode: Episode, rules: PlayRules) -> None:
        """Records a play and gives it its row."""
        assignment = episode.assignment
        step = self.step if assignment.split == "eval" else assignment.iteration * self._derived["m"]
        record = episode_record(episode, step=step, temperature=rules.temperature, max_tokens=rules.max_tokens)
        episode.n = self._write(self.writer.episode, record)
        self.sampled_tokens += episode.sampled_tokens
        for kind in [] if episode.parsed is None else episode.parsed.warnings:
            self.warn(kind, WARNINGS.get(kind, kind))
        if episode.exclusion is not None:
            code = episode.exclusion.code
            self.excluded[code] = self.excluded.get(code, 0) + 1
            if self.excluded[code] == 1:
                self.event(
                    "rl.rollout.excluded",
                    f"an episode was excluded: {code}",
                    level="warning",
                    code=code,
                    count=1,
                    example=episode.cid,
                )

    def dropped(self, group: Group) -> None:
        """A group whose member could not be replaced: no member of it is trained on."""
        culprit = next(m for m in group.members if m.exclusion is not None)
        assert culprit.exclusion is not None
        self.dropped_groups += 1
        self._group(group, None, {"code": culprit.exclusion.code, "member": culprit.assignment.member})
        for member in group.members:
            if member.exclusion is None:
                self._update(member, "group", adv=None, excl="group_dropped")

    def group(self, group: Group, advantages: GroupAdvantages) -> None:
        self._group(group, advantages, None)
        for member, advantage in zip(group.members, advantages.advantages, strict=True):
            excl = "zero_variance" if advantages.dead else None
            self._update(member, "group", adv=None if advantages.dead else float(advantage), excl=excl)

    def _group(self, group: Group, advantages: GroupAdvantages | None, dropped: dict[str, Any] | None) -> None:
        iteration = group.members[0].assignment.iteration
        record = GroupRecord(
            step=iteration * self._derived["m"],
            iteration=iteration,
            group=group.index,
            seed=group.seed,
            split="train",
            members=[member.n for member in group.members],
            rewards=[member.total for member in group.members],
            mean=None if advantages is None else float(advantages.mean),
            std=None if advantages is None else float(advantages.std),
            dead=advantages is not None and advantages.dead,
            dropped=dropped,
            replaces=group.replaces,
        )
        self._write(self.writer.group, record)

    def _update(self, episode: Episode, kind: str, *, step: int | None = None, **fields: Any) -> None:
        iteration = episode.assignment.iteration
        self._write(
            self.writer.update,
            episode.n,
            step=iteration * self._derived["m"] if step is None else step,
            iteration=iteration,
            kind=kind,
            **fields,
        )

    def mask(self, masked: Masked) -> None:
        """Left out of the loss after advantages; its group's mean and std stay."""
        for number in range(len(masked.episode.branches)):
            self._update(masked.episode, "mask", excl=masked.code, branch=number, detail=masked.detail)

    # --- steps ----------------------------------------------------------------------------------------------

    def batch_closed(self, episodes: int, lag: int, limit: int) -> None:
        self.accepted += episodes
        self.status(lag={"mean": float(lag), "max": lag, "limit": limit}, episodes=self.counts())

    def step_done(
        self,
        result: StepResult,
        members: Sequence[Episode],
        values: Mapping[str, float],
        *,
        iteration: int,
        lag: int,
        seconds: float,
    ) -> None:
        """One optimizer update: how each sequence was used, and the metrics line."""
        self.step = result.step
        rows = {member.n: member for member in members}
        for used in result.sequences:
            if result.skipped is None:
                self._used(rows[used.n], used, result.step, lag)
        if result.skipped is not None:
            self._skipped(result, rows)
        self._step_seconds.append(seconds)
        self.metrics({**result.metrics, **values}, iteration=iteration)
        if self.step % self._log_interval == 0:
            self._tell_step(result, iteration, lag)
        left = self._derived["steps"] - self.step
        self.status(
            step=self.step,
            eta_s=statistics.median(self._step_seconds) * left,
            episodes=self.counts(),
            pipeline={"learner": "idle"},
        )

    def _used(self, episode: Episode, used: SequenceResult, step: int, lag: int) -> None:
        logp = np.frombuffer(used.logp_learner, dtype="<f4")
        place = self._write(self.writer.learner_block, used.n, used.branch, {"logp_learner": logp})
        self._update(
            episode,
            "use",
            step=step,
            branch=used.branch,
            w=episode.branches[used.branch].weight,
            s=used.ratio,
            clip=used.clip,
            prox=None,
            gap=[used.gap_mean, used.gap_sd],
            lag=lag,
            lag_in=(step - 1) % self._derived["m"],
            arr=place,
        )

    def _skipped(self, result: StepResult, rows: Mapping[int, Episode]) -> None:
        """A step without an update trains nobody: its episodes are masked, those behind it are named (WIRE 1.6)."""
        detail = {"step": result.step, "what": result.skipped}
        for used in result.sequences:
            self._update(rows[used.n], "mask", step=result.step, excl="step_skipped", branch=used.branch, detail=detail)
        names = ", ".join(rows[n].cid for n in result.culprits[:3] if n in rows)
        self.warn("step_skipped", f"step {result.step} made no update: {result.skipped} (episodes {names})")

    def _tell_step(self, result: StepResult, iteration: int, lag: int) -> None:
        fields = {"loss": "gspo/loss", "grad_norm": "optim/grad_norm", "lr": "optim/lr"}
        shown = {name: result.metrics.get(metric) for name, metric in fields.items()}
        clipped = sum(result.metrics.get(f"gspo/clip_frac_{side}", 0.0) for side in ("low", "high"))
        self.event(
            "rl.train.step",
            f"step {self.step}",
            iteration=iteration,
            epoch=self.epoch(iteration),
            **shown,
            clip_frac=clipped,
            lag=lag,
        )

    def iteration_done(
        self, iteration: int, groups: Sequence[Group], advantages: Sequence[GroupAdvantages], tally: Tally
    ) -> None:
        self.iteration = iteration
        if all(a.dead for a in advantages):
            self.warn("no_gradient", "in every group of an iteration all rewards were equal: nothing to learn from")
        rewards = np.array([member.total for group in groups for member in group.members], dtype=np.float64)
        self.status(iteration=iteration, epoch=iteration // self._per_epoch)
        self.event(
            "rl.iteration.complete",
            f"iteration {iteration}: reward {rewards.mean():.3f}",
            iteration=iteration,
            reward_mean=float(rewards.mean()),
            reward_std=float(rewards.std()),
            episodes=len(rewards),
            excluded=tally.excluded.total(),
            groups_zero_std=sum(a.dead for a in advantages),
            groups_dropped=tally.dropped_groups,
        )

    def metrics(self, values: Mapping[str, float], *, iteration: int, eval_step: int | None = None) -> None:
        self._write(
            self.writer.metrics,
            values,
            step=self.step,
            iteration=iteration,
            epoch=self.epoch(iteration),
            weight_version=self.weight_version,
            eval_step=eval_step,
        )

    async def checkpoint(
        self,
        learner: LearnerProcess,
        *,
        iteration: int,
        reward: dict[str, float | None],
        cursor: dict[str, int],
        facts: Mapping[str, Any],
        keep_last: int,
        keep_best: int,
    ) -> None:
        """Has the learner fill a folder aside, then makes it a checkpoint: sums, rename, STABLE last (WIRE 5.9)."""
        folder = self.writer.paths.checkpoints
        # Rewards of training and of evaluation are not compared: with an evaluation, only evaluated steps compete.
        score = reward["eval"] if self._evaluates else reward["train"]
        is_best = score is not None and (self.best is None or score > self.best["reward"])
        aside = self._write(begin_checkpoint, folder, self.step)
        state = {
            "step": self.step,
            "iteration": iteration,
            "epoch": self.epoch(iteration),
            "attempt": self.writer.attempt,
            "weight_version": self.weight_version,
            "weight_updates": self.weight_updates,
            "cursor": cursor,
            "next_n": self.writer.next_n,
            "next_seq": self.writer.last_seq + 1,
        }
        await learner.checkpoint(aside, state)
        self._write(self.writer.sync)
        manifest = {
            "job_id": self.writer.job_id,
            "step": self.step,
            "iteration": iteration,
            "attempt": self.writer.attempt,
            "world_size": 1,
            "reward": reward,
            "is_best": is_best,
            **facts,
        }
        final = folder / checkpoint_name(self.step)
        done = await asyncio.to_thread(self._write, finish_checkpoint, aside, final, manifest)
        self._write(point, folder, "latest", done)
        place = {
            "step": self.step,
            "iteration": iteration,
            "reward": score,
            "path": f"checkpoints/{final.name}",
        }
        if is_best:
            self.best = place
            self._write(point, folder, "best", done)
        self._write(prune, folder, keep_last, keep_best)
        self.checkpoints = [
            {"step": c.step, "iteration": c.iteration, "path": f"checkpoints/{c.path.name}"}
            for c in list_checkpoints(folder)
        ]
        self.event(
            "rl.checkpoint.saved",
            f"checkpoint of step {self.step}",
            iteration=iteration,
            path=place["path"],
            reward=score,
            is_best=is_best,
        )
        self.last_checkpoint_step = self.step
        self.status(last_checkpoint=place, best=self.best)

    def synced(self, report: SyncReport, present: Mapping[str, Any]) -> None:
        self.weight_version, self.weight_updates = report.version, self.step
        self.event(
            "rl.weight_sync",
            f"weights v{report.version} serve, {self.step} updates",
            version=report.version,
            updates=self.step,
            seconds=report.seconds,
            bytes=report.bytes,
            mode=report.mode,
            rounding_gap=report.rounding_gap,
            verified=None,
        )
        updates = {"weight_version": report.version, "weight_updates": self.step}
        self.status(**updates, pipeline={"sync": "idle"}, **present)

    def iteration_of(self, step: int) -> int:
        return -(-step // self._derived["m"])

    def epoch(self, iteration: int) -> int:
        return max(0, iteration - 1) // self._per_epoch

    def counts(self) -> dict[str, int]:
        return {
            "accepted": self.accepted,
            "excluded": sum(self.excluded.values()),
            "groups_dropped": self.dropped_groups,
        }


def resident_bytes(pids: Sequence[int]) -> int:
    """Resident memory of these processes together; those that are gone count nothing."""
    page, total = os.sysconf("SC_PAGE_SIZE"), 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/statm") as file:
                total += int(file.read().split()[1]) * page
        except OSError:
            continue
    return total
