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

from trainer.config.schema import TrainingConfig
from trainer.errors import RunError
from trainer.learner.client import LearnerProcess
from trainer.learner.protocol import StepResult
from trainer.rewards.advantages import GroupAdvantages
from trainer.rollout.episode import Episode
from trainer.rollout.groups import Group
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
from trainer.rundir.logs import LogFile
from trainer.rundir.records import GroupRecord
from trainer.rundir.status import Child, Warned
from trainer.weights.base import SyncReport

T = TypeVar("T")
ETA_STEPS = 20  # the remaining time follows from the median of that many steps


class Recorder:
    """All writes of a run go through here; a full disk becomes a RunError that names the folder."""

    def __init__(self, writer: RunWriter, derived: Mapping[str, int], training: TrainingConfig) -> None:
        self.writer = writer
        self.step = self.iteration = 0  # done so far
        self.weight_version = self.weight_updates = 0
        self.accepted = self.dropped_groups = self.sampled_tokens = 0
        self.excluded: dict[str, int] = {}
        self.best: dict[str, Any] | None = None  # checkpoint with the highest reward
        self.checkpoints: list[dict[str, Any]] = []
        self.started = time.time()
        self._derived = derived
        self._per_epoch, self._log_interval = training.iterations_per_epoch, training.log_interval
        self._step_seconds: deque[float] = deque(maxlen=ETA_STEPS)

    # --- writing ------------------------------------------------------------------------------------------

    def _write(self, write: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        try:
            return write(*args, **kwargs)
        except DiskFull as error:
            raise RunError(
                "disk_full",
                f"no space left on the disk of {self.writer.paths.root}: {error}",
                "free some space, then start the run again; what was recorded so far is kept",
            ) from None

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
        self.event("rl.phase", phase, phase=phase)

    def warn(self, code: str, text: str) -> None:
        """A warning of the whole run: an event, and an entry of status.json."""
        known = list(self.writer.document.warnings)
        for entry in known:
            if (entry.code, entry.text) == (code, text):
                entry.count += 1
                break
        else:
            known.append(Warned(code=code, text=text))
            self.event("rl.warning", text, level="warning", code=code)
        self.status(warnings=known)

    def beat(self, children: Sequence[Child]) -> None:
        """The sign of life, with the processes that belong to the run."""
        self.writer.note(children=list(children))
        self._write(self.writer.beat)

    # --- episodes and groups --------------------------------------------------------------------------------

    def episode(self, episode: Episode, rules: PlayRules) -> None:
        """Records a play and gives it its row."""
        assignment = episode.assignment
        step = self.step if assignment.split == "eval" else assignment.iteration * self._derived["m"]
        record = episode_record(episode, step=step, temperature=rules.temperature, max_tokens=rules.max_tokens)
        episode.n = self._write(self.writer.episode, record)
        self.sampled_tokens += episode.sampled_tokens
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

    def mask(self, episode: Episode, code: str, detail: Mapping[str, Any]) -> None:
        """Left out of the loss after advantages; its group's mean and std stay."""
        for number in range(len(episode.branches)):
            self._update(episode, "mask", excl=code, branch=number, detail=str(dict(detail))[:120])

    # --- steps ----------------------------------------------------------------------------------------------

    def step_done(
        self,
        result: StepResult,
        by_row: Mapping[int, Episode],
        values: Mapping[str, float],
        *,
        iteration: int,
        seconds: float,
    ) -> None:
        """One optimizer update: how each sequence was used, and the metrics line."""
        self.step = result.step
        for used in result.sequences:
            episode = by_row[used.n]
            logp = np.frombuffer(used.logp_learner, dtype="<f4")
            place = self._write(self.writer.learner_block, used.n, used.branch, {"logp_learner": logp})
            self._update(
                episode,
                "use",
                step=result.step,
                branch=used.branch,
                w=episode.branches[used.branch].weight,
                s=used.ratio,
                clip=used.clip,
                prox=None,
                gap=[used.gap_mean, used.gap_sd],
                lag=0,
                lag_in=(result.step - 1) % self._derived["m"],
                arr=place,
            )
        self._step_seconds.append(seconds)
        self.metrics({**result.metrics, **values}, iteration=iteration)
        if self.step % self._log_interval == 0:
            fields = {"loss": "gspo/loss", "grad_norm": "optim/grad_norm", "lr": "optim/lr"}
            shown = {name: result.metrics.get(metric) for name, metric in fields.items()}
            clipped = (result.metrics.get(f"gspo/clip_frac_{side}", 0.0) for side in ("low", "high"))
            self.event(
                "rl.train.step",
                f"step {self.step}",
                iteration=iteration,
                epoch=self.epoch(iteration),
                **shown,
                clip_frac=sum(clipped),
                lag=0,
            )
        left = self._derived["steps"] - self.step
        self.status(
            step=self.step,
            eta_s=statistics.median(self._step_seconds) * left,
            episodes=self.counts(),
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
        score = reward["train"] if reward["eval"] is None else reward["eval"]
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
        self.status(last_checkpoint=place, best=self.best)

    def synced(self, report: SyncReport) -> None:
        self.weight_version, self.weight_updates = report.version, self.step
        self.event(
            "rl.weight_sync",
            f"weights v{report.version} serve, {self.step} updates",
            version=report.version,
            updates=self.step,
            seconds=report.seconds,
            bytes=report.bytes,
            mode=report.mode,
            verified=None,
        )
        self.status(weight_version=report.version, weight_updates=self.step)

    def epoch(self, iteration: int) -> int:
        return max(0, iteration - 1) // self._per_epoch

    def counts(self) -> dict[str, int]:
        return {
            "accepted": self.accepted,
            "excluded": sum(self.excluded.values()),
            "groups_dropped": self.dropped_groups,
        }

    def train_rows(self, groups: Sequence[Group]) -> dict[int, Episode]:
        return {member.n: member for group in groups for member in group.members}


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
