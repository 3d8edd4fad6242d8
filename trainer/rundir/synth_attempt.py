"""One attempt of a synthetic run, iteration by iteration, written by the real writer."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np

from trainer.rollout.types import Branch
from trainer.rundir.checkpoints import begin_checkpoint, finish_checkpoint, point, prune
from trainer.rundir.jsonl import iso
from trainer.rundir.process import ProcessId
from trainer.rundir.records import EpisodeRecord, Exclusion, GroupRecord
from trainer.rundir.synth_data import (
    SynthConfig,
    draw_branch,
    learner_logp,
    pipeline_now,
    resolved_document,
    reward_level,
    reward_metrics,
    services_now,
    step_metrics,
    system_metrics,
    turn_record,
)
from trainer.rundir.synth_end import STALLED_S, finish, tear
from trainer.rundir.synth_judge import WEIGHTS, SynthJudge
from trainer.rundir.synth_logs import SynthLogs
from trainer.rundir.writer import RunWriter

_STARTED = 1_750_000_000.0  # a fixed clock: records do not depend on when they are made
_ALIVE_KINDS = {"running", "stalled"}
_STEP_S = 4.0


class SetClock:
    """A clock that goes on by what is added to it."""

    def __init__(self, now: float = _STARTED) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class Attempt:
    """Plays iterations first … last of a run that never was."""

    def __init__(
        self,
        root: str | os.PathLike[str],
        config: SynthConfig,
        *,
        attempt: int,
        first: int,
        last: int,
        started: float = _STARTED,
    ) -> None:
        self.config = config
        self.attempt = attempt
        self.first, self.last = first, last
        self.random = np.random.default_rng([config.seed, attempt])
        self.clock = SetClock(started + (attempt - 1) * 1_000_000)
        self.writer = RunWriter(
            root,
            job_id=f"rl_{config.seed:016x}",
            label=f"synth-{config.kind}",
            attempt=attempt,
            identity=_identity(config.kind),
            clock=self.clock,
        )
        self.excluded = 0
        self.branches: dict[int, Branch] = {}  # by n, of episodes that a step has yet to use
        self.logs = SynthLogs(self.writer.paths, attempt, self.clock)
        self.judge = SynthJudge(config.seed, self.writer) if config.judge else None

    def wait(self, seconds: float, episodes: int = 0) -> None:
        """Let time pass, in which so many episodes were played."""
        self.clock.now += seconds

    def play(self, end: str) -> Iterator[int]:
        """Gives each iteration's number once its records stand."""
        self._begin()
        for iteration in range(self.first, self.last + 1):
            self._iteration(iteration)
            yield iteration
        if end == "stalled":
            self.clock.now += STALLED_S
        finish(self.writer, end, self.last * self.config.updates, self.clock.now)
        self.close()
        if end == "torn":
            tear(self.writer)

    def close(self) -> None:
        self.writer.close()
        self.logs.close()

    def _begin(self) -> None:
        config, writer = self.config, self.writer
        if self.attempt == 1:
            writer.resolved(resolved_document(config))
            if self.judge is not None:
                self.judge.begin()
            writer.event("rl.job.created", "Job created", step=0, label=writer.document.label)
            writer.event("rl.job.started", "Job started", step=0)
            self._evaluate(0)
        else:
            from_step = (self.first - 1) * config.updates
            writer.event(
                "rl.resumed",
                f"Attempt {self.attempt} goes on after step {from_step}",
                step=from_step,
                attempt=self.attempt,
                from_step=from_step,
                from_iteration=self.first - 1,
                overrides={},
            )
        writer.status(
            state="running",
            phase="training",
            totals={
                "steps": config.iterations * config.updates,
                "iterations": config.iterations,
                "epochs": 1,
                "episodes": config.episodes,
            },
        )

    def _iteration(self, iteration: int) -> None:
        config, writer = self.config, self.writer
        step = iteration * config.updates
        rewards: list[float] = []
        for group in range(config.groups):
            room = config.episodes - (iteration - 1) * config.per_iteration - group * config.group_size
            if room > 0:
                rewards += self._group(iteration, group, min(room, config.group_size))
        for update in range(config.updates):
            self.wait(_STEP_S)
            at = step - config.updates + update + 1
            values = step_metrics(self.random, config, iteration)
            if update == config.updates - 1:
                values |= reward_metrics(rewards, config.group_size)
                values |= self.judge.closing() if self.judge is not None else {}
            self.logs.step(at, values)
            writer.metrics(values, step=at, iteration=iteration, epoch=1, weight_version=iteration)
            writer.event(
                "rl.train.step",
                f"step {at}: loss {values['gspo/loss']:.4f}",
                step=at,
                iteration=iteration,
                epoch=1,
                loss=values["gspo/loss"],
                grad_norm=values["optim/grad_norm"],
                lr=values["optim/lr"],
                clip_frac=values["gspo/clip_frac_low"] + values["gspo/clip_frac_high"],
                lag=0,
            )
        writer.metrics(system_metrics(self.random), step=step, iteration=iteration, epoch=1, weight_version=iteration)
        mean = float(np.mean(rewards)) if rewards else 0.0
        writer.event(
            "rl.iteration.complete",
            f"iteration {iteration}: reward {mean:.3f}",
            step=step,
            iteration=iteration,
            reward_mean=mean,
            reward_std=float(np.std(rewards)) if rewards else 0.0,
            episodes=len(rewards),
            excluded=self.excluded,
            groups_zero_std=0,
            groups_dropped=0,
        )
        writer.note(
            step=step,
            iteration=iteration,
            epoch=1,
            weight_version=iteration,
            weight_updates=step,
            episodes={"accepted": writer.next_n - self.excluded, "excluded": self.excluded, "running": 24},
            lag={"mean": 0.0, "max": 0, "limit": config.updates},
            pipeline=pipeline_now(self.random, config),
            **services_now(iteration),
            eta_s=max(0, config.iterations - iteration) * config.updates * _STEP_S,
        )
        if iteration % config.eval_every == 0 or iteration == config.iterations:
            self._evaluate(iteration)
        if iteration % config.checkpoint_every == 0 or iteration == self.last:
            self._checkpoint(iteration, mean)
        writer.beat()

    def _group(self, iteration: int, group: int, size: int) -> list[float]:
        config, writer = self.config, self.writer
        step = iteration * config.updates
        number = (iteration - 1) * config.groups + group
        level = reward_level(self.config, iteration)
        dead = config.kind == "collapsed" and 2 * iteration > config.iterations
        if dead:
            rewards = np.full(size, 0.2)
        else:
            rewards = np.round(self.random.beta(6 * level, 6 * (1 - level), size), 6)
        members, counted = [], []
        for member in range(size):
            self.wait(0.2, episodes=1)
            failed = config.kind == "failed" and iteration == config.iterations and member == 0
            drawn = None if failed else float(rewards[member])
            n, rewarded = self._episode(iteration, number, member, drawn, alike=dead)
            members.append(n)
            counted.append(rewarded)
            rewards[member] = rewards[member] if rewarded is None else rewarded
        mean, std = float(rewards.mean()), float(rewards.std())
        writer.group(
            GroupRecord(
                step=step,
                iteration=iteration,
                group=number,
                seed=number,
                split="train",
                members=members,
                rewards=counted,
                mean=mean,
                std=std,
                dead=dead,
            )
        )
        for n, reward in zip(members, counted, strict=True):
            if dead or reward is None:
                writer.update(
                    n,
                    step=step,
                    iteration=iteration,
                    kind="group",
                    adv=None,
                    excl="zero_variance" if dead else "group_dropped",
                )
            else:
                self._use(n, step, iteration, (reward - mean) / (std + 1e-6))
        return [reward for reward in counted if reward is not None]

    def _use(self, n: int, step: int, iteration: int, advantage: float) -> None:
        writer = self.writer
        writer.update(n, step=step, iteration=iteration, kind="group", adv=advantage, excl=None)
        ratio = float(np.exp(self.random.normal(0, 0.01)))
        arr = None
        if self.config.learner_blocks:
            arr = writer.learner_block(n, 0, {"logp_learner": learner_logp(self.branches.pop(n), ratio, n)})
        writer.update(
            n,
            step=step,
            iteration=iteration,
            kind="use",
            branch=0,
            w=1.0,
            s=ratio,
            clip="high" if ratio > 1.02 else "low" if ratio < 0.98 else "none",
            prox=None,
            gap=[0.004, 0.006],
            lag=0,
            lag_in=n % self.config.updates,
            arr=arr,
        )

    def _episode(
        self,
        iteration: int,
        group: int | None,
        member: int,
        reward: float | None,
        split: str = "train",
        alike: bool = False,
    ) -> tuple[int, float | None]:
        """`reward`: the task app's. Gives the number of the episode and its whole reward."""
        config = self.config
        seed = group if group is not None else 10_000 + member
        branch, spans = draw_branch(self.random, config, iteration)
        exclusion = None
        if reward is None:
            self.excluded += 1
            exclusion = Exclusion(
                code="http_error", detail={"status": 500, "tries": 3}, evidence="Internal Server Error"
            )
        wall = 1.0 + float(self.random.random())
        step = iteration * config.updates
        cid = f"{self.writer.job_id}-{iteration}-{seed}-{member}-0-{self.random.bytes(12).hex()}"
        event = outcome = None
        tracks: dict[str, float] = {}
        total, parts = reward, dict[str, Any]()
        if self.judge is not None and reward is not None:
            asked = (cid, step, iteration, reward, self.clock.now)
            total, event, outcome, tracks = self.judge.of(*asked, train=split == "train", alike=alike)
            parts = {"event": event, "outcome": outcome, "weights": WEIGHTS}
        n = self.writer.episode(
            EpisodeRecord(
                cid=cid,
                je=event,
                jo=outcome,
                judge={"tracks": tracks} if tracks else None,
                step=step,
                iteration=iteration,
                split=split,
                seed=seed,
                group=group,
                member=member,
                R=total,
                O=reward,
                stop="completed" if len(branch.ids) % 11 else "max_tokens",
                t=self.clock.now,
                wall=wall,
                branches=[branch],
                turns=[
                    turn_record(t, seed, member, reward, span, self.clock.now - wall) for t, span in enumerate(spans)
                ],
                rewards={"O": reward, "O_path": "metrics.outcome_reward", **parts, "R": total},
                exclusion=exclusion,
                sampling={"temperature": 1.0, "max_tokens": 64},
                app={"status": 500 if reward is None else 200},
                timings={"queue": 0.05, "app": 0.1, "generate": wall - 0.2, "total": wall},
            )
        )
        if split == "train" and config.learner_blocks:
            self.branches[n] = branch
        return n, total

    def _evaluate(self, iteration: int) -> None:
        step = iteration * self.config.updates
        level = reward_level(self.config, iteration)
        rewards = np.round(self.random.beta(6 * level, 6 * (1 - level), 8), 6).tolist()
        rewards = [
            self._episode(iteration, None, member, reward, split="eval")[1] for member, reward in enumerate(rewards)
        ]
        summary = {"eval/reward_mean": float(np.mean(rewards)), "eval/reward_std": float(np.std(rewards))}
        self.writer.metrics(summary, step=step, iteration=iteration, epoch=1, weight_version=iteration, eval_step=step)
        self.writer.event(
            "rl.eval.summary",
            f"evaluation at step {step}: {summary['eval/reward_mean']:.3f}",
            step=step,
            iteration=iteration,
            weight_version=iteration,
            reward_mean=summary["eval/reward_mean"],
            reward_std=summary["eval/reward_std"],
            instances=len(rewards),
            mixed=False,
            is_best=True,
        )

    def _checkpoint(self, iteration: int, reward: float) -> None:
        folder, step = self.writer.paths.checkpoints, iteration * self.config.updates
        aside = begin_checkpoint(folder, step)
        (aside / "adapter_config.json").write_text('{"peft_type": "LORA"}')
        (aside / "adapter_model.safetensors").write_bytes(bytes(64))
        (aside / "optimizer").mkdir()
        (aside / "optimizer" / "rank_0.safetensors").write_bytes(bytes(64))
        manifest: dict[str, Any] = {
            "job_id": self.writer.job_id,
            "step": step,
            "iteration": iteration,
            "attempt": self.attempt,
            "trainer_mode": "lora",
            "base_model": {"name": "builtin:tiny", "revision": None, "sha256": None},
            "world_size": 1,
            "reward": {"train": reward, "eval": reward},
            "is_best": True,
            "created_at": iso(self.clock.now),
        }
        checkpoint = finish_checkpoint(aside, folder / f"step_{step}", manifest)
        point(folder, "latest", checkpoint)
        point(folder, "best", checkpoint)
        prune(folder, keep_last=3, keep_best=1)
        reached = {"step": step, "iteration": iteration, "reward": reward, "path": f"checkpoints/step_{step}"}
        self.writer.event(
            "rl.checkpoint.saved",
            f"checkpoint step_{step}",
            step=step,
            iteration=iteration,
            path=reached["path"],
            is_best=True,
        )
        self.writer.note(last_checkpoint=reached, best=reached)


def _identity(kind: str) -> ProcessId:
    """This process, or one of this pid that ended before it: then the run's process is gone for sure."""
    here = ProcessId.current()
    if kind in _ALIVE_KINDS:
        return here
    return msgspec.structs.replace(here, start_time=max(0, here.start_time - 1))
