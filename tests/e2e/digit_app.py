"""A task app for tests: say the digit again. Its environment makes it break in a chosen way, or say more."""

import asyncio
import os

from trainer.taskapp.llm import ChatClient
from trainer.taskapp.server import TaskAppConfig, refuse

FAULT = os.environ.get("DIGIT_APP_FAULT", "")


def closeness(text: str, digit: str) -> float:
    """1 for five times the digit; near characters earn something, so that a random policy has a slope to climb."""
    return sum(max(0.0, 1 - abs(ord(c) - ord(digit)) / 64) for c in text[:5]) / 5


def build_config() -> TaskAppConfig:
    client = ChatClient()
    played = 0

    async def rollout(request, _):
        nonlocal played
        played += 1
        if FAULT == "500":
            raise RuntimeError("boom")
        if FAULT == "hang":
            await asyncio.sleep(3600)
        if FAULT == "once" and played == 3:
            raise refuse(503, "busy", "come back later")
        if FAULT == "exit" and played == 6:
            os._exit(7)
        digit = str(request.env.seed % 10)
        messages = [{"role": "user", "content": digit + os.environ.get("DIGIT_APP_SAYS", "")}]
        tools = [{"type": "function", "function": {"name": "say"}}] if FAULT == "tools" else None
        completion = await client.complete(request.policy.config, messages, tools=tools)
        reward = closeness(completion.text, digit)
        if FAULT == "huge" or (FAULT == "huge-once" and request.env.seed == 0):
            reward *= 1e38  # its square is too large for the norm of a gradient
        if FAULT == "nan":
            return {"metrics": {"outcome_reward": "NaN", "num_steps": 1}}
        step = {"obs": {}, "tool_calls": [], "reward": reward, "done": True, "info": {}}
        return {"trajectories": [{"steps": [step]}], "metrics": {"outcome_reward": reward}}

    return TaskAppConfig(
        app_id="digit",
        name="Digit",
        description="Say the digit again.",
        base_task_info={"task": {"id": "digit"}},
        describe_taskset=lambda: {"id": "digit", "sizes": {"train": 1000}, "default_split": "train"},
        provide_task_instances=lambda seeds: [{} for _ in seeds],
        rollout=rollout,
    )
