"""A task for a model without any knowledge: the reward is the share of lowercase letters in the answer.

A random model begins near 0.1; a few dozen updates take it towards 1, so curves of many runs cost a minute each.
"""

from __future__ import annotations

from dataclasses import replace

from starlette.requests import Request

from trainer.taskapp.builtin import facts
from trainer.taskapp.contracts import Json, RolloutRequest
from trainer.taskapp.server import TaskAppConfig


def share(text: str) -> float:
    return sum("a" <= letter <= "z" for letter in text) / max(1, len(text))


def build_config() -> TaskAppConfig:
    config = facts.build_config()

    async def rollout(request: RolloutRequest, http: Request) -> Json:
        answer = await config.rollout(request, http)
        step = answer["trajectories"][0]["steps"][0]
        step["reward"] = share(step["output"])
        answer["metrics"] = {"outcome_reward": step["reward"]}
        return answer

    return replace(config, rollout=rollout)
