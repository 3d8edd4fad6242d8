"""Writes what the pipeline does into the run directory, and keeps the numbers of the present."""

from __future__ import annotations

import statistics
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from trainer.config import RunConfig
from trainer.errors import disk_full
from trainer.health import Finding, Health
from trainer.lag import Lags
from trainer.learner.protocol import Sequence as TrainSequence
from trainer.learner.protocol import SequenceResult, StepResult
from trainer.points import Points
from trainer.rewards.advantages import mean_and_std
from trainer.rollout.batch import Masked, Update
from trainer.rollout.episode import Episode, Exclusion
from trainer.rollout.groups import Group, Tally
from trainer.rollout.player import PlayRules
from trainer.rollout.transcript import episode_record
from trainer.rundir import DiskFull
from trainer.rundir.jsonl import iso
from trainer.rundir.logs import LogFile
from trainer.rundir.patient import PatientWriter
from trainer.rundir.records import GroupRecord
from trainer.rundir.status import Child, Warned, warned
from trainer.taskapp.codes import sentence, warning
from trainer.trackers.board import Trackers
from trainer.weights.base import SyncReport

T = TypeVar("T")
EXCLUDED_S = 10.0  # an event of excluded episodes at most so often, for each code and cause
TOKENS = "tokens"
ETA_STEPS = 20  # the remaining time follows from the median of that many steps


class Recorder:
    """All writes of a run go through here; a full disk becomes a RunError that names the folder."""

    def __init__(
        self, writer: PatientWriter, derived: Mapping[str, int], config: RunConfig, trackers: Trackers | None = None
    ) -> None:
        self.writer = writer
        self._trackers = trackers or Trackers()
        self._points = Points(self._tell_points)
        self.step = self.iteration = 0  # done so far
        self.weight_version = self.weight_updates = 0
        self.accepted = self.dropped_groups = self.sampled_tokens = 0
        self.excluded: dict[str, int] = {}
        self._told: dict[str, str] = {}  # the app's warnings, by kind
        self._told_at: dict[tuple[str, str], float] = {}  # excluded episodes, by code and cause
        self._began = time.monotonic()
        self._limit_s = None if config.training.max_minutes is None else 60.0 * config.training.max_minutes
        self._open: dict[int, Counter[str]] = {}  # of groups in no batch yet: tokens, and exclusions by code
        self._derived = derived
        self._health = Health(derived["E"])
        self._unhealthy([])  # nothing that an earlier attempt said of its own steps holds any more
        self._per_epoch, self.log_interval = config.training.iterations_per_epoch, config.training.log_interval
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

    @property
    def phase_now(self) -> str:
        return self.writer.document.phase

    def warn(self, code: str, text: str) -> None:
        """A warning of the whole run: an event, and an entry of status.json."""
        warnings, new = warned(self.writer.document.warnings, code, text, iso(time.time()))
        if new:
            self.event("rl.warning", text, level="warning", code=code)
        self.writer.note(warnings=warnings)  # written with the next beat

    def _unhealthy(self, findings: Sequence[Finding]) -> None:
        """An event of what is new, and an entry of status.json for as long as it holds, with the newest figures."""
        for told in (each for each in findings if each.times == 1):
            facts = {"rule": told.rule, "value": told.found.value, "advice": told.found.advice}
            self.event("rl.health", told.message, level="warning", **facts)
        now, said = iso(time.time()), {told.rule for told in findings}
        holds = [Warned(code=told.rule, text=told.message, count=told.times, last_at=now) for told in findings]
        others = (entry for entry in self.writer.document.warnings if entry.code not in said)
        self.writer.note(warnings=[*(entry for entry in others if not self._health.is_over(entry.code)), *holds])

    def present(self, pipeline: Mapping[str, Any], waiting: Mapping[str, Any] | None) -> None:
        """The pipeline as it is now; written with the next beat."""
        episodes = {**self.counts(), "running": pipeline["running"]}
        self.writer.note(pipeline=dict(pipeline), waiting=waiting, episodes=episodes)

    def sync(self) -> None:
        self._write(self.writer.sync)

    def beat(self, children: Sequence[Child], present: Mapping[str, Any]) -> None:
        """The sign of life, with the processes that belong to the run and what else changes unasked."""
        self.writer.note(children=list(children), budget_s=self.budget_s, **present)
        self._write(self.writer.beat)
        self._points.due()

    # --- episodes and groups --------------------------------------------------------------------------------

    def episode(self, episode: Episode, rules: PlayRules) -> None:
        """Records a play and gives it its row."""
        assignment = episode.assignment
        # An evaluation begins when its iteration is over; updates may go on while it plays.
        step = assignment.iteration * self._derived["m"]
        record = episode_record(episode, step=step, temperature=rules.temperature, max_tokens=rules.max_tokens)
        episode.n = self._write(self.writer.episode, record)
        self.sampled_tokens += episode.sampled_tokens
        own = Counter() if assignment.group is None else self._open.setdefault(assignment.group, Counter())
        own[TOKENS] += episode.sampled_tokens
        for kind in [] if episode.parsed is None else episode.parsed.warnings:
            # said with the numbers of the first episode, then counted
            self.warn(kind, self._told.setdefault(kind, warning(kind, episode.facts)))
        if episode.exclusion is not None:
            self._excluded(episode, episode.exclusion)
            own[episode.exclusion.code] += 1

    def _excluded(self, episode: Episode, exclusion: Exclusion) -> None:
        code, detail = exclusion.code, exclusion.detail
        count = self.excluded[code] = self.excluded.get(code, 0) + 1
        kind, now = (code, str(detail.get("code", ""))), time.monotonic()  # a judge fails in ways of its own
        if now - self._told_at.get(kind, -EXCLUDED_S) < EXCLUDED_S:
            return
        self._told_at[kind] = now
        told = f"an episode was excluded: {sentence(code, detail)}"
        self.event("rl.rollout.excluded", told, level="warning", code=code, count=count, example=episode.cid)

    def dropped(self, group: Group) -> None:
        """A group whose member could not be replaced: no member of it is trained on."""
        culprit = next(m for m in group.members if m.exclusion is not None)
        assert culprit.exclusion is not None
        self.dropped_groups += 1
        self._group(group, group.iteration, {"code": culprit.exclusion.code, "member": culprit.assignment.member})
        for member in group.members:
            if member.exclusion is None:
                self._update(member, "group", iteration=group.iteration, adv=None, excl="group_dropped")

    def refilled(self, group: Group) -> None:
        """A dead group in whose place another one is played."""
        self.group(group, group.iteration)

    def group(self, group: Group, iteration: int) -> None:
        """A group as it closes, in the batch of `iteration`; its episodes may have been started for another one."""
        advantages = group.advantages
        assert advantages is not None
        self._group(group, iteration, None)
        for member, advantage in zip(group.members, advantages.advantages, strict=True):
            excl = "zero_variance" if advantages.dead else None
            given = not advantages.dead and advantages.turns is None and np.isfinite(advantage)
            adv = float(advantage) if given else None
            self._update(member, "group", iteration=iteration, adv=adv, excl=excl)

    def settled(self) -> tuple[int, dict[str, int]]:
        """Sampled tokens and exclusions by code, without what a resume plays again: groups in no batch yet."""
        begun: Counter[str] = sum(self._open.values(), Counter())
        tokens = self.sampled_tokens - begun[TOKENS]
        return tokens, {code: left for code, count in self.excluded.items() if (left := count - begun[code])}

    def _group(self, group: Group, iteration: int, dropped: dict[str, Any] | None) -> None:
        self._open.pop(group.index, None)
        advantages = group.advantages
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
            refills=group.refills,
        )
        self._write(self.writer.group, record)

    def _update(self, episode: Episode, kind: str, *, iteration: int, step: int | None = None, **fields: Any) -> None:
        self._write(
            self.writer.update,
            episode.n,
            step=iteration * self._derived["m"] if step is None else step,
            iteration=iteration,
            kind=kind,
            **fields,
        )

    def mask(self, masked: Masked, iteration: int) -> None:
        """Left out of the loss after advantages; its group's mean and std stay."""
        every = range(len(masked.episode.branches))
        for branch in every if masked.branch is None else (masked.branch,):
            what = {"excl": masked.code, "branch": branch, "detail": masked.detail}
            self._update(masked.episode, "mask", iteration=iteration, **what)

    # --- steps ----------------------------------------------------------------------------------------------

    def batch_closed(self, lags: Lags) -> None:
        self.accepted += len(lags.of)
        self.status(lag={"mean": lags.mean, "max": lags.max, "limit": lags.limit}, episodes=self.counts())

    def step_done(
        self,
        result: StepResult,
        update: Update,
        values: Mapping[str, float],
        *,
        iteration: int,
        lags: Lags,
        seconds: float,
    ) -> None:
        """One optimizer update: how each sequence was used, and the metrics line."""
        self.step = result.step
        rows = {member.n: member for member in update.members}
        for used, sent in zip(result.sequences, update.sequences, strict=True):
            if result.skipped is None:
                self._used(used, sent, result.step, iteration, lags.of[used.n])
        if result.skipped is not None:
            self._skipped(result, rows, iteration)
        self._step_seconds.append(seconds)
        line = {**result.metrics, **values}
        self.metrics(line, iteration=iteration)
        self._unhealthy(self._health.look(line))
        if self.step % self.log_interval == 0:
            self._trackers.row(self.step)
            self._tell_step(result, iteration, lags.max)
        eta_s = self.median_step_s * (self._derived["steps"] - self.step)
        self.status(step=self.step, eta_s=eta_s, episodes=self.counts(), pipeline={"learner": "idle"})

    def _used(self, used: SequenceResult, sent: TrainSequence, step: int, iteration: int, lag: int) -> None:
        advantage = used.advantage or sent.token_advantage
        block = {"logp_learner": used.logp_learner, "logp_proximal": sent.logp_proximal, "adv": advantage}
        self.writer.use(
            used.n,
            used.branch,
            {name: np.frombuffer(array, dtype="<f4") for name, array in block.items() if array},
            iteration=iteration,
            step=step,
            w=sent.weight,
            s=used.ratio,
            clip=used.clip,
            prox=used.prox,
            gap=[used.gap_mean, used.gap_sd],
            lag=lag,
            lag_in=(step - 1) % self._derived["m"],
        )

    def _skipped(self, result: StepResult, rows: Mapping[int, Episode], iteration: int) -> None:
        """A step without an update trains nobody: its episodes are masked, those behind it are named (WIRE 1.6)."""
        where = {"iteration": iteration, "step": result.step}
        detail = {"step": result.step, "what": result.skipped}
        for used in result.sequences:
            self._update(rows[used.n], "mask", **where, excl="step_skipped", branch=used.branch, detail=detail)
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

    def iteration_done(self, iteration: int, groups: Sequence[Group], tally: Tally) -> None:
        self.iteration = iteration
        advantages = [group.advantages for group in groups if group.advantages is not None]
        dead = sum(a.dead for a in advantages)
        told = f"; {dead} of {len(groups)} groups have equal rewards: no gradient" if dead else ""
        rewards = np.array([member.total for group in groups for member in group.members], dtype=np.float64)
        mean, std = mean_and_std(rewards)
        self.status(iteration=iteration, epoch=iteration // self._per_epoch)
        self.event(
            "rl.iteration.complete",
            f"iteration {iteration}: reward {mean:.3f}{told}",
            iteration=iteration,
            reward_mean=mean,
            reward_std=std,
            episodes=len(rewards),
            excluded=tally.excluded.total(),
            groups_zero_std=dead,
            groups_dropped=tally.dropped_groups,
            groups_refilled=tally.refilled_groups,
        )

    def metrics(
        self,
        values: Mapping[str, float],
        *,
        iteration: int,
        eval_step: int | None = None,
        weight_version: int | None = None,
    ) -> None:
        """`eval_step`, `weight_version`: of the weights that an evaluation played with; None: those that serve."""
        self._write(
            self.writer.metrics,
            values,
            step=self.step,
            iteration=iteration,
            epoch=self.epoch(iteration),
            weight_version=self.weight_version if weight_version is None else weight_version,
            eval_step=eval_step,
        )
        step = self.step if eval_step is None else eval_step
        self._points.add(values, step=step, iteration=iteration, epoch=self.epoch(iteration))
        if eval_step is None:
            self._trackers.add(values)
        else:
            self._trackers.send(eval_step, values)
        self._warn_of(self._trackers.failures())

    def close_trackers(self) -> None:
        """After the last step: waits, within bounds, until they have all they are to have."""
        self._points.flush()
        self._warn_of(self._trackers.close(self.step))

    def _tell_points(self, points: list[dict[str, Any]]) -> None:
        last = points[-1]
        self.event("rl.metrics", f"{last['name']} {last['value']:.4g} at step {last['step']}", points=points)

    def _warn_of(self, failures: Sequence[str]) -> None:
        for text in failures:
            self.warn("tracker_off", text)

    def synced(self, report: SyncReport, present: Mapping[str, Any]) -> None:
        self.weight_version, self.weight_updates = report.version, self.step
        self._sync_event(f"weights v{report.version} serve, {self.step} updates", report)
        if report.resent:
            self._unhealthy(self._health.resent(report.version))
        updates = {"weight_version": report.version, "weight_updates": self.step}
        self.status(**updates, pipeline={"sync": "idle"}, **present)

    def not_synced(self, report: SyncReport) -> None:
        """The canary failed twice: what it measured is on record before the run ends."""
        self._sync_event(f"weights v{report.version} are not what the engine runs", report)

    def _sync_event(self, text: str, report: SyncReport) -> None:
        self.event("rl.weight_sync", text, updates=self.step, **report.facts())

    @property
    def budget_s(self) -> float | None:
        """Seconds left of `training.max_minutes`; None: there is no limit."""
        return None if self._limit_s is None else max(0.0, self._limit_s - self.wall_s)

    @property
    def wall_s(self) -> float:
        """Seconds since the attempt began."""
        return time.monotonic() - self._began

    @property
    def median_step_s(self) -> float:
        """Of the last steps; 0 before the first."""
        return statistics.median(self._step_seconds) if self._step_seconds else 0.0

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
