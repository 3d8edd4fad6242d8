"""A judge service by its contract."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from tests.judge.conftest import CRITERIA, Bench, Json, Server, bench, episode
from tests.taskapp.conftest import http
from trainer.judge.cache import known_replies
from trainer.judge.errors import JudgeFailed, JudgeMisconfigured
from trainer.judge.service import score_url

KEY = "synth-key-of-the-tests"
BOTH = {kind: {"criteria": CRITERIA} for kind in ("event", "outcome")}


def service(server: Server, options: Json | None = None, overrides: Json | None = None, **given: Any) -> Bench:
    given = {
        "judge_url": server.url,
        "environ": {"SYNTH_API_KEY": KEY},
        "policy_name": "react",
        "task_app": {"id": "mine", "base_url": "https://user:pw@app.example/x"},
        **given,
    }
    return bench({"event": True, "metadata": {"team": "a"}, **(options or {})}, overrides=overrides or {}, **given)


def ok(**answer: Any) -> bytes:
    return http(200, json.dumps({"status": "ok", **answer}))


async def test_the_request_is_that_of_the_contract(server: Server) -> None:
    server.script = [ok(event_totals=[0.5, 1.0], outcome_reward=0.25)]
    made = service(server, {"rubric_id": "theirs@v1"})
    played = episode("one", "two", env_name="grid")
    played.turns[1].messages[1]["tool_calls"] = [{"function": {"name": "dig", "arguments": "{}"}}]
    given = await made.judge.judge(played)
    assert (given.event_scores, given.event, given.outcome) == ([0.5, 1.0], 0.75, 0.25)
    body, head = server.bodies[0], server.heads[0]
    assert head.startswith("post /api/judge/v1/score ") and f"authorization: bearer {KEY}" in head
    assert body["policy_name"] == "react" and "rubric" not in body
    assert body["task_app"] == {"id": "mine", "base_url": "https://app.example/x"}
    assert body["options"] == {
        "provider": "openai", "rubric_id": "theirs@v1", "event": True, "outcome": True, "timeout_s": 30.0,
        "max_concurrency": 10, "metadata": {"team": "a"},
    }  # fmt: skip
    trace = body["trace"]
    assert trace["event_history"][1] == {
        "observation": "question 1", "tool_calls": [{"name": "dig", "arguments": "{}"}], "reward": 1.0, "done": False,
        "truncated": False, "info": {},
    }  # fmt: skip
    assert [m["role"] for m in trace["markov_blanket_message_history"]] == ["user", "assistant"] * 2
    assert trace["metadata"] == {"cid": "cid-1", "seed": 7, "env_name": "grid"}
    assert KEY not in repr(made.records) and made.records[0].kind == "both"


async def test_a_rubric_that_we_resolved_is_sent_and_a_loopback_app_is_not(server: Server) -> None:
    server.script = [ok(event_totals=[1], outcome_reward=1)]
    made = service(server, overrides=BOTH, task_app={"id": "a", "base_url": "http://127.0.0.1:1"}, environ={})
    await made.judge.judge(episode())
    body = server.bodies[0]
    assert [c["id"] for c in body["rubric"]["event"]] == [c["id"] for c in CRITERIA]
    assert body["task_app"] == {"id": "a"} and "authorization" not in server.heads[0]


REVIEW = {"criteria": {"a": {"score": 0.5, "reason": "half", "weight": 1, "description": "d"}}, "total": 0.5}


@pytest.mark.parametrize(
    ("answer", "events", "outcome"),
    [
        ({"event_reviews": [REVIEW, {"total": 1}], "outcome_review": REVIEW}, [0.5, 1.0], 0.5),
        ({"event_reviews": [REVIEW, REVIEW], "event_totals": [0, 1], "outcome_review": REVIEW}, [0.0, 1.0], 0.5),
        ({"event_rewards": [{"total": 0.1}, {"reward": 0.2}], "outcome_reward": {"reward": 0}}, [0.1, 0.2], 0.0),
        ({"event_totals": [1, 1, 0], "aggregate_score": 0.75, "new": 1}, [1.0, 1.0], 0.75),  # a trailing one is dropped
    ],
)
async def test_answers_of_every_shape(server: Server, answer: Json, events: list[float], outcome: float) -> None:
    server.script = [ok(**answer, metadata={"tokens_in": 7, "tokens_out": 3, "cost_usd": 0.5})]
    given = await service(server).judge.judge(episode("one", "two"))
    assert given.event_scores == events and given.outcome == outcome
    assert (given.tokens_in, given.tokens_out, given.cost_usd) == (7, 3, 0.5)
    if "outcome_review" in answer:
        assert given.record()["outcome"]["criteria"] == {"a": {"score": 0.5, "reason": "half"}}


@pytest.mark.parametrize(
    ("answer", "code", "why"),
    [
        (ok(event_totals=[1], outcome_reward=1), "judge_unparsable", "1 event scores for 2 turns"),
        (ok(event_totals=[1, 1, 1, 1], outcome_reward=1), "judge_unparsable", "4 event scores for 2 turns"),
        (ok(event_totals=[1, None], outcome_reward=1), "judge_unparsable", "the score of turn 1 is missing"),
        (ok(event_totals=[1, 1]), "judge_unparsable", "the score of the outcome is missing"),
        (ok(event_totals=[1, 1], outcome_reward=11), "judge_unparsable", "outcome is 11, outside 0 to 1"),
        (ok(event_totals=[1, 1], outcome_reward=float("nan")), "judge_unparsable", "no finite number"),
        (ok(event_totals=[1, "1"], outcome_reward=1), "judge_unparsable", "turn 1 is no finite number"),
        (http(200, "[]"), "judge_unparsable", "not a JSON object"),
        (http(200, '{"status": "failed", "details": "no quota"}'), "judge_refused", "the service failed: no quota"),
        (http(502, "bad gateway"), "judge_transient", "502 from the judge service: bad gateway"),
        (http(429, "later"), "judge_rate_limited", "later"),
    ],
)
async def test_what_is_no_score_fails_after_three_tries(server: Server, answer: bytes, code: str, why: str) -> None:
    server.script = [answer]
    made = service(server)
    with pytest.raises(JudgeFailed) as caught:
        await made.judge.judge(episode("one", "two"))
    assert caught.value.code == code and why in caught.value.text
    assert [line.code for line in made.records] == [code] * 3 and made.time.now > 1_000


@pytest.mark.parametrize(
    ("status", "code", "named"),
    [(401, "judge_auth", "SYNTH_API_KEY"), (403, "judge_auth", "SYNTH_API_KEY"), (404, "judge_route", "judge_url")],
)
async def test_a_service_that_refuses_us_stops_the_job(server: Server, status: int, code: str, named: str) -> None:
    server.script = [http(status, f"not with {KEY}")]
    made = service(server, {"rubric_id": "theirs@v1"})
    with pytest.raises(JudgeMisconfigured) as caught:
        await made.judge.judge(episode())
    assert caught.value.code == code and named in caught.value.hint and KEY not in repr(caught.value)
    assert status != 404 or "theirs@v1" in caught.value.message


async def test_a_resumed_run_asks_nothing_twice_however_long_the_answer(server: Server) -> None:
    long = {**REVIEW, "summary": "s" * 5_000}
    server.script = [ok(event_reviews=[long] * 40, outcome_review=REVIEW)]
    first = service(server)
    played = episode(*map(str, range(40)))
    before = await first.judge.judge(played)
    lines = msgspec.to_builtins(first.records)
    assert len(lines[0]["reply"]) <= 2_000
    played.cid = "cid-2"  # of the same episode in another attempt
    after = await service(server, {"max_concurrency": 2}, known=known_replies(lines)).judge.judge(played)
    assert after.cached and (after.event_scores, after.outcome) == (before.event_scores, before.outcome)
    assert len(server.bodies) == 1


def test_api_is_put_before_the_path_once() -> None:
    assert (
        score_url("https://j.example") == score_url("https://j.example/api/") == "https://j.example/api/judge/v1/score"
    )
