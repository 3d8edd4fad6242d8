"""Task apps and clients of every version of the contract (WIRE 1.4, 1.5), as strict servers and as fixed bodies.

The request models forbid every field that their version did not know; the answers are what its apps return.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Literal

import httpx
import pytest
from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from trainer.taskapp.client import TaskAppClient
from trainer.taskapp.contracts import Json
from trainer.taskapp.server import create_task_app

from .conftest import KEY, request_body, serving
from .test_server import config

CID = "job-1-2-3-0-abc"
URL = f"http://127.0.0.1:1/v1/chat/completions?cid={CID}"


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Env(Strict):
    env_id: str | None = None
    env_name: str | None = None
    config: Json = {}
    seed: int | None = None


class OldPolicy(Strict):
    policy_id: str | None = None
    policy_name: str | None = None
    config: Json = {}


class Policy(OldPolicy):
    output_mode: Literal["tool_calls", "text", "structured"] = "tool_calls"
    structured_config: Json | None = None


class Record(Strict):
    trajectories: bool = True
    logprobs: bool = False
    value: bool = False
    return_trace: bool = False
    trace_format: Literal["compact", "full", "structured"] = "compact"


class OldSafety(Strict):
    max_ops: int
    max_time_s: float


class Safety(Strict):
    max_time_s: float


class Request0217(Strict):
    run_id: str
    env: Env
    policy: OldPolicy
    ops: list[str]
    record: Record
    on_done: str
    safety: OldSafety
    training_session_id: str | None = None
    synth_base_url: str | None = None
    mode: Literal["rl", "eval"]


class Request041(Request0217):
    policy: Policy


class Request0410(Strict):
    run_id: str
    env: Env
    policy: Policy
    record: Record = Record()
    on_done: str = "reset"
    safety: Safety
    training_session_id: str | None = None
    synth_base_url: str | None = None
    mode: Literal["rl", "eval"] = "rl"


class Request0412(Strict):
    trace_correlation_id: str
    env: Env
    policy: Policy
    on_done: str = "reset"
    safety: Safety
    training_session_id: str | None = None
    synth_base_url: str | None = None


STEP = {"obs": {"text": "?"}, "tool_calls": [], "reward": 0.5, "done": True, "info": {"meta": {"inference_url": URL}}}
TRAJECTORY = {"env_id": "e", "policy_id": "p", "steps": [STEP], "length": 1, "final": None}
UNSET = {"episode_rewards": [], "reward_mean": 0.0, "outcome_score": None, "events_score": None}
TRACE = {"event_history": [{"event_type": "lm_call", "call_record": {"messages": [], "response": {}}}, {"reward": 0.5}]}


@dataclass
class Era:
    """request: what its servers take. answer: what its apps return. dropped: what we must learn to leave out."""

    request: type[BaseModel]
    answer: Json
    path: str
    dropped: set[str] = field(default_factory=set)
    warnings: set[str] = field(default_factory=set)


OLD_METRICS = {"episode_returns": [0.5], "mean_return": 0.5, "num_steps": 1, "num_episodes": 1}
ERAS = {
    "0.2.17": Era(
        Request0217,
        {"run_id": CID, "trajectories": [TRAJECTORY], "branches": {}, "metrics": OLD_METRICS, "aborted": False,
         "ops_executed": 2, "trace": None},
        "metrics.episode_returns[0]",
        {"trace_correlation_id", "policy.output_mode", "policy.structured_config"},
    ),
    "0.4.1": Era(
        Request041,
        {"run_id": CID, "trajectories": [{**TRAJECTORY, "inference_url": URL, "trace": TRACE}], "branches": {},
         "metrics": OLD_METRICS, "aborted": False, "ops_executed": 2, "pipeline_metadata": {}},
        "metrics.episode_returns[0]",
        {"trace_correlation_id"},
    ),
    "0.4.3": Era(
        Request0410,
        {"run_id": CID, "trace_correlation_id": CID, "inference_url": URL, "trace": TRACE, "aborted": False,
         "metrics": {"episode_returns": [0.5], "mean_return": 0.5, "num_steps": 1}},
        "metrics.episode_returns[0]",
        {"trace_correlation_id", "ops", "safety.max_ops"},
    ),
    "0.4.10": Era(
        Request0410,
        {"run_id": CID, "trace_correlation_id": CID, "inference_url": URL, "trace": TRACE,
         "metrics": {**UNSET, "outcome_reward": 0.5, "num_steps": 1, "details": {}}},
        "metrics.outcome_reward",
        {"trace_correlation_id", "ops", "safety.max_ops"},
    ),
    "0.4.10 unset": Era(
        Request0410,
        {"run_id": CID, "trace_correlation_id": CID, "inference_url": URL, "trace": TRACE, "metrics": UNSET},
        "steps[].reward",
        {"trace_correlation_id", "ops", "safety.max_ops"},
    ),
    "0.4.12": Era(
        Request0412,
        {"trace_correlation_id": CID, "metrics": {"outcome_reward": 0.5}, "trace": TRACE, "inference_url": URL},
        "metrics.outcome_reward",
        {"run_id", "ops", "mode", "record", "safety.max_ops"},
    ),
    "after": Era(
        Request0412,
        {"trace_correlation_id": CID, "reward_info": {"outcome_reward": 0.5, "event_rewards": [0.5],
         "outcome_objectives": {"reward": 0.5}}, "trace": TRACE, "inference_url": None, "success_status": "success"},
        "reward_info.outcome_reward",
        {"run_id", "ops", "mode", "record", "safety.max_ops"},
        {"no_inference_url_echo"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ERAS)
async def test_one_request_serves_every_version_and_its_answer_is_understood(name):
    era, bodies = ERAS[name], list[Any]()

    async def rollout(request: Request) -> JSONResponse:
        bodies.append(await request.json())
        try:
            era.request.model_validate(bodies[-1])
        except ValidationError as error:
            detail = [{**e, "loc": ["body", *e["loc"]]} for e in error.errors(include_url=False)]
            return JSONResponse({"detail": json.loads(json.dumps(detail, default=str))}, 422)
        return JSONResponse(era.answer)

    body = request_body(CID, inference_url=URL, job_id="rl_1", judge_on=True)
    with serving(Starlette(routes=[Route("/rollout", rollout, methods=["POST"])])) as url:
        async with TaskAppClient(url, api_key=KEY) as client:
            parsed = [await client.rollout(body) for _ in range(2)]
            notes = client.new_notes()
    assert len(bodies) == 3  # it learned at the first what to leave out
    assert set(notes[0].partition("from now on: ")[2].split(", ")) == era.dropped and len(notes) == 1
    assert [(p.outcome, p.outcome_path) for p in parsed] == [(0.5, era.path)] * 2
    assert set(parsed[0].warnings) == era.warnings
    assert [(s.reward, s.done) for s in parsed[0].steps] in ([(0.5, True)], [(0.5, False)])
    assert parsed[0].event_rewards == [0.5]


REQUESTS = {
    "0.2.17": {"run_id": CID, "ops": ["agent", "env"], "record": {"trajectories": True}, "mode": "rl",
               "safety": {"max_ops": 100000, "max_time_s": 3600.0}},
    "0.4.10": {"run_id": CID, "record": {"return_trace": True}, "mode": "eval"},
    "0.4.12": {"trace_correlation_id": CID, "safety": {"max_time_s": 60}},
    "with nulls": {"trace_correlation_id": CID, "run_id": None, "ops": None, "mode": None, "record": None},
}  # fmt: skip


@pytest.mark.parametrize("name", REQUESTS)
def test_our_server_takes_every_versions_request_and_echoes_in_every_place(name, key):
    seen = []

    def rollout(request, http_request):
        seen.append(request)
        return {"metrics": {"outcome_reward": 0.5}, "trajectories": [{"steps": [{"reward": 0.5}]}]}

    policy = {"policy_name": "p", "config": {"inference_url": URL}}
    body = {"env": {"env_name": "e", "seed": 3}, "policy": policy, "on_done": "reset", **REQUESTS[name]}
    with serving(create_task_app(config(rollout))) as url:
        answer = httpx.post(f"{url}/rollout", json=body, headers={"Authorization": f"Bearer {KEY}"}).json()
    request = seen[0]
    assert request.run_id == request.trace_correlation_id == CID and request.env.seed == 3
    assert request.mode == ("eval" if name == "0.4.10" else "rl")
    trajectory = answer["trajectories"][0]
    for holder in (answer, answer["pipeline_metadata"], trajectory):
        assert holder["trace_correlation_id"] == CID and holder["inference_url"] == URL
    assert answer["run_id"] == CID and trajectory["steps"][0]["info"]["meta"]["inference_url"] == URL
    assert answer["metrics"]["num_steps"] == trajectory["length"] == 1
