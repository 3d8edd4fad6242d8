"""Puts a pipeline together from services that are up."""

from __future__ import annotations

import asyncio
from typing import Literal

from trainer.config import Loaded
from trainer.control_room import ControlRoom
from trainer.errors import EXIT_CONFIG, RunError
from trainer.judge_of_run import RunJudge
from trainer.pipeline import Pipeline
from trainer.recorder import Recorder
from trainer.resume import Restored
from trainer.rewards.rules import Blend
from trainer.rollout.judging import Judging
from trainer.rollout.meter import Meter
from trainer.rollout.player import FirstTries, Player
from trainer.rollout.seeds import SeedCursor
from trainer.saving import CheckpointSaver
from trainer.services import Services
from trainer.settings import play_rules
from trainer.weights.verified import VerifiedSync


def build(
    *,
    loaded: Loaded,
    services: Services,
    recorder: Recorder,
    sync: VerifiedSync | None,
    room: ControlRoom,
    saver: CheckpointSaver,
    restored: Restored | None,
    stopping: asyncio.Event,
    judge: RunJudge | None = None,
) -> Pipeline:
    """Raises RunError."""
    config, job_id = loaded.config, recorder.writer.job_id
    room.on_change(lambda: services.client.raise_connections(room.config.rollout.max_concurrent_rollouts))
    evaluation = config.evaluation
    first_tries, meter = FirstTries(), Meter()
    judging = None
    if judge is not None:
        judging = Judging(
            judge.judge,
            Blend(**loaded.blend),
            meter,
            steps=loaded.derived["m"],
            env_name=config.rollout.env_name,
            task=judge.task,
            pairs=restored.judged if restored else (),
        )

    def player(split: Literal["train", "eval"]) -> Player:
        return Player(
            lambda: play_rules(room.config, job_id, split, loaded.blend),
            services.gateway,
            services.client,
            first_tries,
            recorder.episode,
            judging,
        )

    begun = restored.cursor if restored else {}
    try:
        cursor = SeedCursor(
            config.data.seed_start,
            config.data.seed_count or services.seed_count,
            evaluation.seeds if evaluation else [],
            begun.get("seed", 0),
            begun.get("group", 0),
            begun.get("again", ()),
        )
    except ValueError as error:
        hint = "change data.seed_start, data.seed_count or evaluation.seeds"
        raise RunError("config", str(error), hint, exit_code=EXIT_CONFIG) from None
    return Pipeline(
        loaded,
        services,
        recorder,
        sync,
        player("train"),
        player("eval"),
        cursor,
        stopping,
        saver=saver,
        room=room,
        restored=restored,
        meter=meter,
        judging=judging,
    )
