"""What task apps, judge services and models answer, to the byte, read by the real clients from a real socket."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.effort import examples, within
from tests.fuzz.mutate import mutated, to_json, torn
from tests.judge.conftest import CRITERIA, GOOD, Server, bench, chat, episode, local
from tests.taskapp.conftest import KEY, http, raw_server, request_body
from trainer.judge.errors import JudgeFailed, JudgeMisconfigured
from trainer.judge.judge import Judge
from trainer.taskapp.client import TaskAppClient
from trainer.taskapp.codes import CODES, WARNINGS
from trainer.taskapp.errors import RolloutFailure, TaskAppError, TaskAppRejected

CID = "cid-1"
URL = f"http://127.0.0.1:1/v1/chat/completions?cid={CID}"
STEP = {
    "obs": {"x": 1},
    "tool_calls": [{"name": "f"}],
    "reward": 0.5,
    "done": False,
    "info": {"meta": {"inference_url": URL}},
}
CALL = {"input_messages": [], "output_messages": [], "output_text": "t", "output_tool_calls": [{"name": "f"}]}
ROLLOUTS = [
    {"trajectories": [{"steps": [STEP, STEP], "length": 2}], "metrics": {"episode_returns": [1.0], "mean_return": 1.0}},
    {"metrics": {"outcome_reward": 0.5, "episode_rewards": [], "reward_mean": 0.0, "num_steps": 2}},
    {
        "reward_info": {"outcome_reward": 1.0, "event_rewards": [0.5, 0.5]},
        "trace": {"event_history": [{"call_records": [CALL]}]},
    },
    {
        "aborted": False,
        "success_status": "success",
        "metrics": {"outcome_reward": 1},
        "trace": {"session_time_steps": []},
    },
]
ECHOES = {"run_id": CID, "trace_correlation_id": CID, "inference_url": URL}
TASK_INFO = {
    "task": {"id": "t", "name": "n"},
    "taskset": {"sizes": {"train": 10}},
    "dataset": {"id": "d", "splits": ["train"], "sizes": {"train": 10}},
    "rubric": {"outcome": {"name": "r", "criteria": [{"id": "c", "description": "d", "weight": 1}]}, "events": None},
    "inference": {"model": "m"},
    "limits": {"max_turns": 3, "timeout_seconds": 5},
}
REFUSALS = [
    (400, {"detail": {"error": {"code": "unauthorised"}}}),
    (422, {"detail": [{"loc": ["body", "safety"], "msg": "extra inputs not permitted", "type": "extra_forbidden"}]}),
    (503, {"detail": {"error": {"code": "missing_environment_api_key"}}}),
]
STATUS = st.sampled_from([200] * 12 + [204, 301, 400, 401, 404, 418, 422, 429, 500, 503, 599, 99, 0])
HEADERS = st.lists(
    st.sampled_from(
        [
            "content-encoding: gzip",
            "retry-after: nan",
            "retry-after: -1e999",
            "location: http://[",
            "location: /x",
            "retry-after: Thu, 32 Foo 99999",
            "content-type: text/html",
            "set-cookie: a=b",
            "x: \xff",
        ]
    ),
    max_size=1,
)


def answers(*bodies: Any) -> st.SearchStrategy[bytes]:
    """HTTP answers with one of these bodies, changed as JSON, as bytes, or as HTTP."""
    body = st.sampled_from(bodies).flatmap(lambda body: st.one_of(mutated(body).map(to_json), torn(to_json(body), 2)))
    whole = st.builds(lambda status, body, headers: http(status, body, *headers), STATUS, body, HEADERS)
    refused = st.sampled_from(REFUSALS).flatmap(
        lambda item: mutated(item[1], 2).map(lambda b: http(item[0], to_json(b)))
    )
    return st.one_of(
        whole, whole, whole, refused, st.sampled_from(bodies).flatmap(lambda b: torn(http(200, to_json(b)), 2))
    )


async def no_wait(_: float) -> None: ...


async def asked(answer: bytes, then: bytes) -> None:
    """A rollout, then all that is read besides."""
    given_ = iter([answer])
    async with (
        raw_server(lambda request, n: next(given_, then)) as url,
        TaskAppClient(url, api_key=KEY, timeout_s=30.0, max_connections=2) as app,
    ):
        try:
            parsed = await app.rollout(request_body(CID))
        except RolloutFailure as error:
            assert error.code in CODES and str(error) and len(error.evidence) <= 2_000
            assert error.retry_after is None or error.retry_after >= 0
            assert error.code != "timeout"
        except TaskAppRejected as error:
            assert str(error) and error.reason in ("auth", "route", "request", "redirect")
        else:
            rewards = [parsed.outcome, *parsed.event_rewards, *(step.reward for step in parsed.steps)]
            assert all(type(reward) is float and math.isfinite(reward) for reward in rewards)
            assert set(parsed.warnings) <= set(WARNINGS)
            msgspec.json.encode([parsed.warnings, parsed.outcome])
        for read in (app.health_gate(no_wait), app.info(), app.taskset(), app.task_info([1, 2])):
            with contextlib.suppress(TaskAppError):
                await read


@examples(20)
@given(
    answer=answers(*({**body, **ECHOES} for body in ROLLOUTS)), then=answers(TASK_INFO, {"healthy": True}, [TASK_INFO])
)
def test_a_task_apps_answer_is_valid_or_has_a_code(answer: bytes, then: bytes) -> None:
    with within(120):
        asyncio.run(asked(answer, then))


SERVICE = {
    "status": "ok",
    "event_reviews": [{"criteria": {"fact.correct": {"score": 1, "reason": "r"}}, "total": 0.5, "summary": "s"}],
    "event_totals": [0.5],
    "outcome_review": {"criteria": {"style.kind": {"score": 0.5, "reason": "r", "weight": 1}}, "total": 0.25},
    "outcome_reward": 0.25,
    "details": {"x": 1},
    "tokens_in": 3,
    "cost_usd": 0.1,
}
LIES = [-0.1, 1.1, 2, "0.5", "1", {"total": 0.5}, {"reward": 2}, {"score": "1"}, "failed"]


async def judged(judge: Judge, records: list[Any], clock: Any) -> None:
    began = time.monotonic()
    try:
        given_ = await judge.judge(episode("Paris."))
    except (JudgeFailed, JudgeMisconfigured) as error:
        assert error.code.startswith("judge_") and str(error)
    else:
        scores = [given_.event, given_.outcome, *given_.event_scores, *given_.tracks.values()]
        assert all(0 <= score <= 1 for score in scores if score is not None)
        assert given_.outcome is not None
        msgspec.json.encode(given_.record())
    finally:
        await judge.close()
    assert time.monotonic() - began < 60
    for line in records:
        msgspec.json.encode(line)
        assert len(line.reply or "") <= 2_000


async def from_service(script: list[bytes]) -> None:
    server = Server(script=list(script))
    async with raw_server(server.reply) as url:
        made = bench({"event": True}, overrides={}, judge_url=url, policy_name="p", task_app={"id": "t"})
        await judged(made.judge, made.records, made.time)


async def from_model(script: list[bytes]) -> None:
    server = Server(script=list(script))
    async with raw_server(server.reply) as url:
        server.url = url
        made = local(server)
        await judged(made.judge, made.records, made.time)


service_answers = st.one_of(answers(SERVICE), mutated(SERVICE, 2, LIES).map(lambda body: http(200, to_json(body))))
CHAT = msgspec.json.decode(chat(GOOD).partition(b"\r\n\r\n")[2])
model_answers = st.one_of(
    answers(CHAT),
    mutated(GOOD, 2, LIES).map(lambda said: chat(to_json(said).decode())),
    torn(to_json(GOOD), 2).map(lambda said: chat(said.decode(errors="replace"))),
)


@examples(20)
@given(script=st.lists(service_answers, min_size=1, max_size=2))
def test_a_judge_service_scores_within_0_and_1_or_fails_by_a_code(script: list[bytes]) -> None:
    with within(120):
        asyncio.run(from_service(script))


@examples(20)
@given(script=st.lists(model_answers, min_size=1, max_size=2))
def test_a_model_as_judge_scores_within_0_and_1_or_fails_by_a_code(script: list[bytes]) -> None:
    assert {criterion["id"] for criterion in CRITERIA}
    with within(120):
        asyncio.run(from_model(script))
