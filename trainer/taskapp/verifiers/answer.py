"""From a finished episode of `verifiers` to a rollout answer (WIRE 1.5): a step per model call. Pure."""

from __future__ import annotations

from typing import Any

import verifiers.v1 as vf
from verifiers.v1.dialects.chat import message_to_wire

from trainer.taskapp.codes import clean
from trainer.taskapp.contracts import Json, RolloutRequest

CAUSE_CHARS = 500


class Unplayable(ValueError):
    """The environment plays in a way that no episode here can have. The text says which, and what to do."""


def failure_of(episode: vf.Episode[Any, Any, Any]) -> str | None:
    """What went wrong, in one sentence; None: the episode came to its end and was scored."""
    if episode.ok:
        return None
    errors = [*episode.errors, *(error for trace in episode.traces for error in trace.errors)]
    if errors:
        return clean(f"{errors[-1].type}: {errors[-1].message}", CAUSE_CHARS)
    stops = [trace.stop_condition for trace in episode.traces if not trace.ok and trace.stop_condition]
    return clean(f"the episode ended by {stops[-1]}" if stops else "the environment gave no reason", CAUSE_CHARS)


def answer(episode: vf.Episode[Any, Any, Any], request: RolloutRequest, name: str) -> Json:
    """The rollout answer. A failed episode is one that the app gave up, never a reward of 0.

    Raises Unplayable: the policy played several agents of the episode.
    """
    if (cause := failure_of(episode)) is not None:
        return {"trajectories": [], "success_status": "failure", "status_detail": cause}
    trace = _trained(episode)
    reward = trace.reward if trace.rewards else None
    rewards = {key: each.value for key, each in trace.rewards.items() if each is not None}
    metrics = {key: value for key, value in trace.metrics.items() if value is not None}
    steps = _steps(trace)
    if steps:
        steps[-1] |= {"reward": reward, "done": True, "truncated": trace.is_truncated}
        steps[-1]["info"] |= {"rewards": rewards, "metrics": metrics, "stop": trace.stop_condition}
    return {
        "trajectories": [{"env_id": name, "policy_id": request.policy.policy_name, "steps": steps}],
        "metrics": {
            "outcome_reward": reward,
            "episode_returns": [] if reward is None else [reward],
            "num_steps": len(steps),
            "details": {**metrics, **{f"reward/{key}": value for key, value in rewards.items()}},
        },
        "success_status": "success",
    }


def _trained(episode: vf.Episode[Any, Any, Any]) -> vf.Trace[Any, Any, Any]:
    """The one agent that the policy plays: whatever it answers in this episode is trained on."""
    trained = [trace for trace in episode.traces if trace.agent.trainable]
    # Only the policy's address has the fragment; an agent with a client of its own never reaches the gateway.
    others = [
        trace.agent.name
        for trace in episode.traces
        if not trace.agent.trainable and trace.agent.config.client.base_url.endswith("#")
    ]
    if len(trained) != 1:
        names = ", ".join(trace.agent.name for trace in trained) or "nobody"
        raise Unplayable(f"an episode trains one agent once, and here it is {names}")
    if others:
        raise Unplayable(
            f"{', '.join(others)} is not trained, yet plays with the policy: give it a model of its own, "
            f"rollout.env_config.env.{others[0]}.client and .model"
        )
    return trained[0]


def _steps(trace: vf.Trace[Any, Any, Any]) -> list[Json]:
    """A step per answer of the model: what it was shown since the one before, what it said, what its tools gave."""
    steps: list[Json] = []
    shown: list[Json] = []
    for node in trace.nodes:
        message = message_to_wire(node.message)
        if not node.sampled:
            shown.append(message)
            continue
        _tell_results(steps, shown)
        steps.append(
            {
                "obs": {"messages": shown},
                "tool_calls": message.get("tool_calls") or [],
                "output": message.get("content") or "",
                "output_mode": "tool_calls" if message.get("tool_calls") else "text",
                "reward": 0.0,
                "done": False,
                "info": {},
            }
        )
        shown = []
    _tell_results(steps, shown)
    return steps


def _tell_results(steps: list[Json], shown: list[Json]) -> None:
    if steps and (results := [message for message in shown if message["role"] == "tool"]):
        steps[-1]["info"]["tool_results"] = results
