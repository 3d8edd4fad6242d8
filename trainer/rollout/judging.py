"""The judge beside the episodes: each one that ended well is judged, before its reward is made (CONFIG 7)."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import numpy as np

from trainer.judge.agreement import spearman
from trainer.judge.errors import JudgeFailed
from trainer.judge.judge import Judge
from trainer.judge.score import overall
from trainer.judge.types import JudgedEpisode, from_record
from trainer.rewards.rules import Blend
from trainer.rollout.episode import Episode
from trainer.rollout.meter import Meter
from trainer.rollout.transcript import turn_records
from trainer.taskapp.errors import RolloutFailure

Json = dict[str, Any]
Pair = tuple[float, float]

WINDOW = 200  # episodes that judge/agreement is of
OWN = frozenset({"latency", "failed", "agreement"})  # of judge/*: no track is called so


class Judging:
    """One judge for the training and the evaluation episodes of a run."""

    def __init__(
        self,
        judge: Judge,
        blend: Blend,
        meter: Meter,
        *,
        steps: int,
        env_name: str,
        task: Json,
        pairs: Iterable[Pair] = (),
    ) -> None:
        """
        Args:
            meter: of the dispatcher whose episodes are judged.
            steps: of an iteration.
            task: what the task app says of the task: name, description.
            pairs: of an earlier attempt.
        """
        self._judge, self._blend, self._meter = judge, blend, meter
        self._steps, self._env_name, self._task = steps, env_name, task
        self._pairs: deque[Pair] = deque(pairs, maxlen=WINDOW)
        self._seconds: list[float] = []
        self._failed = 0

    async def judge(self, episode: Episode) -> None:
        """Sets the judgement of an episode that was settled.

        Raises:
            RolloutFailure: `judge_failed`: there is none.
            JudgeMisconfigured: there will be none for any episode.
        """
        began = time.monotonic()
        with self._meter.at_judge():
            try:
                judgement = await self._judge.judge(self._seen(episode))
            except JudgeFailed as failure:
                self._failed += 1
                cause = {"cause": failure.text, "code": failure.code}
                raise RolloutFailure("judge_failed", cause, failure.evidence) from None
            finally:
                episode.judge_s = time.monotonic() - began
        self._seconds.append(episode.judge_s)
        judgement.calls = [place for place in judgement.calls if place >= 0]  # on a full disk a line has no place yet
        episode.judgement = judgement

    def _seen(self, episode: Episode) -> JudgedEpisode:
        """As its text line will hold it."""
        assignment, parsed = episode.assignment, episode.parsed
        seen = from_record(
            {
                "cid": episode.cid,
                "step": assignment.iteration * self._steps,
                "iteration": assignment.iteration,
                "seed": assignment.seed,
                "O": parsed.outcome if parsed else None,
                "turns": msgspec.to_builtins(turn_records(episode)),
            }
        )
        return msgspec.structs.replace(seen, env_name=self._env_name, task=self._task)

    def closing(self, episodes: Sequence[Episode]) -> dict[str, float]:
        """judge/*: of the episodes of a batch, and of the judgements since the batch before. Scored ones alone.

        `latency` is the mean time at the judge in seconds, `failed` counts episodes that got no score, evaluations
        included, `agreement` is the rank correlation of the judge with the environment over the last 200 episodes.
        """
        judged = [e for e in episodes if e.judgement is not None and e.reward is not None]
        for episode in judged:
            assert episode.judgement is not None and episode.reward is not None
            score = overall(episode.judged.event, episode.judged.outcome, self._blend.event, self._blend.outcome)
            if score is not None:
                self._pairs.append((score, episode.reward.outcome))
        metrics = {"judge/failed": float(self._failed)}
        if self._seconds:
            metrics["judge/latency"] = float(np.mean(self._seconds))
        agreement = spearman([pair[0] for pair in self._pairs], [pair[1] for pair in self._pairs])
        if agreement is not None:
            metrics["judge/agreement"] = agreement
        by_track: dict[str, list[float]] = {}
        for episode in judged:
            assert episode.judgement is not None
            for name, score in episode.judgement.tracks.items():
                by_track.setdefault(name, []).append(score)
        metrics |= {f"judge/{name}": float(np.mean(scores)) for name, scores in by_track.items() if name not in OWN}
        self._seconds, self._failed = [], 0
        return metrics

    @property
    def pairs(self) -> list[Pair]:
        """What `agreement` is of; a checkpoint keeps it."""
        return list(self._pairs)

    def depths(self) -> Json:
        """What of status.json's `pipeline` it knows (WIRE 5.4)."""
        load = self._judge.load
        return {
            "judge_in_flight": load.in_flight,
            "judge_queued": load.queued,
            "judge_oldest_s": None if load.oldest_s is None else round(load.oldest_s, 3),
        }
