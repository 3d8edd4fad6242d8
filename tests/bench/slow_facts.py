"""The built-in task app `facts` with an environment that takes its time: SLOW_FACTS_S seconds a turn."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace

from starlette.requests import Request

from trainer.taskapp.builtin import facts
from trainer.taskapp.contracts import Json, RolloutRequest
from trainer.taskapp.server import TaskAppConfig


def build_config() -> TaskAppConfig:
    config, seconds = facts.build_config(), float(os.environ.get("SLOW_FACTS_S", "2"))

    async def rollout(request: RolloutRequest, http: Request) -> Json:
        await asyncio.sleep(seconds)
        return await config.rollout(request, http)

    return replace(config, rollout=rollout)
