"""Answers of task apps, as the parser reads them."""

from __future__ import annotations

from typing import Any

from trainer.taskapp.parse import ParsedRollout, parse_rollout


def step(reward: float | None = 0.0, **info: Any) -> dict[str, Any]:
    decision = {"decision_index": info.pop("decision")} if "decision" in info else {}
    return {"reward": reward, "done": False, "info": info, **decision}


def answer(steps: list[dict[str, Any]], outcome: float = 1.0, **more: Any) -> ParsedRollout:
    trajectory = {"steps": steps, **({"decision_samples": more.pop("samples")} if "samples" in more else {})}
    body = {"run_id": "c", "trajectories": [trajectory], "metrics": {"outcome_reward": outcome, **more}}
    return parse_rollout(body, cid="c")


# Three turns: wood twice, wood again for a penalty, the first stone.
WORKED = [
    step(0.5, meta={"decision_rewards": {"unique": ["wood"], "all": ["wood", "wood"], "ach_delta": 2}}),
    step(-0.25, meta={"decision_rewards": {"unique": [], "all": ["wood"], "ach_delta": 1}}),
    step(0.0, meta={"decision_rewards": {"unique": ["stone"], "all": ["stone"], "ach_delta": 1}}),
]
