"""A task app that is played by tools: press the button of a colour, which the seed hides."""

import json

from starlette.requests import Request

from trainer.taskapp.contracts import RolloutRequest
from trainer.taskapp.llm import ChatClient
from trainer.taskapp.server import TaskAppConfig

COLOURS = ["red", "green", "blue"]
TOOL = {
    "type": "function",
    "function": {
        "name": "press",
        "parameters": {
            "type": "object",
            "properties": {"colour": {"enum": COLOURS}, "times": {"type": "integer", "minimum": 1, "maximum": 3}},
            "required": ["colour", "times"],
        },
    },
}


def build_config() -> TaskAppConfig:
    client = ChatClient()

    async def rollout(request: RolloutRequest, _: Request) -> dict:
        seed = request.env.seed or 0
        messages = [{"role": "user", "content": f"Seed {seed}: press the right button."}]
        completion = await client.complete(request.policy.config, messages, mode=request.mode, tools=[TOOL])
        arguments = json.loads(completion.tool_calls[0]["function"]["arguments"]) if completion.tool_calls else {}
        reward = 1.0 if arguments.get("colour") == COLOURS[seed % 3] else 0.0
        step = {"obs": messages, "tool_calls": completion.tool_calls, "reward": reward, "done": True, "info": {}}
        return {"trajectories": [{"steps": [step]}], "metrics": {"outcome_reward": reward}}

    return TaskAppConfig(
        app_id="press",
        name="Press",
        description="Press the right button.",
        base_task_info={"task": {"id": "press"}, "environment": "press", "limits": {"max_turns": 1}},
        describe_taskset=lambda: {"sizes": {"train": 9}},
        provide_task_instances=lambda seeds: [{"task_metadata": {"seed": s, "prompt": f"Seed {s}"}} for s in seeds],
        rollout=rollout,
        shutdown_hooks=(client.close,),
    )
