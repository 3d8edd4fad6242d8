"""A model as judge: both wire formats, what servers refuse, what fails, what it costs."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from typing import Any

import httpx
import pytest

from tests.judge.conftest import GOOD, GOOD_TOTAL, Json, Server, bench, chat, episode, local, refusal
from tests.taskapp.conftest import http
from trainer.judge.errors import JudgeFailed, JudgeMisconfigured
from trainer.judge.judge import Judge
from trainer.judge.providers import PROVIDERS, choose_provider

KEY = "sk-key-of-the-tests-0123456789"


async def failure(judge: Judge) -> JudgeFailed:
    with pytest.raises(JudgeFailed) as caught:
        await judge.judge(episode())
    return caught.value


# --- good answers


async def test_an_outcome_is_one_call_scored_by_tracks(server: Server) -> None:
    server.script = [chat(GOOD)]
    made = local(server)
    given = await made.judge.judge(episode("Paris."))
    assert given.outcome == pytest.approx(GOOD_TOTAL) and given.event is None and given.event_scores == []
    assert given.tracks == {"fact": 1.0, "style": pytest.approx(0.4)}
    assert (given.tokens_in, given.tokens_out, given.cost_usd, given.cached) == (100, 20, None, False)
    assert given.outcome_review.criteria["style.kind"].reason == "curt"
    [line] = made.records
    assert given.calls == [1] and (line.kind, line.turn, line.status, line.http, line.try_) == (
        "outcome",
        None,
        "ok",
        200,
        0,
    )
    assert (line.step, line.iteration, line.cid, line.source, line.model) == (4, 2, "cid-1", "llm", "m")
    assert line.criteria == {"fact.correct": 1.0, "style.kind": 0.5, "style.brief": 0.1} and line.tokens_in == 100
    assert "authorization" not in server.heads[0]
    await made.judge.close()


@pytest.mark.parametrize(("aggregation", "event"), [("mean", 0.5), ("sum", 1.0)])
async def test_turns_are_judged_one_by_one_and_the_episode_too(server: Server, aggregation: str, event: float) -> None:
    def answer(body: Json) -> bytes:
        asked = body["messages"][1]["content"]
        return chat({"c1": 0.25 if "whole record" in asked else float("second" in asked)})

    server.script = [answer]
    rubric = {kind: {"criteria": [{"id": "a"}]} for kind in ("event", "outcome")}
    made = local(server, {"event": True}, overrides=rubric, event_aggregation=aggregation)
    given = await made.judge.judge(episode("first", "second"))
    assert given.event_scores == [0.0, 1.0] and given.event == event and given.outcome == 0.25
    assert {(line.kind, line.turn) for line in made.records} == {("event", 0), ("event", 1), ("outcome", None)}
    record = given.record()
    assert [review["turn"] for review in record["event"]] == [0, 1] and record["outcome"]["total"] == 0.25
    assert json.dumps(record) and sorted(record["calls"]) == [1, 2, 3]


async def test_openais_format_asks_for_a_strict_schema_and_tells_the_cost(server: Server, monkeypatch) -> None:
    monkeypatch.setitem(PROVIDERS, "openai", (PROVIDERS["openai"][0], f"{server.url}/v1", "gpt-5-nano"))
    server.script = [chat(GOOD)]
    made = bench(environ={"OPENAI_API_KEY": KEY}, options={"api_key_env": "OPENAI_API_KEY"})
    given = await made.judge.judge(episode())
    assert given.model == "gpt-5-nano" == made.judge.describe()["model"]
    assert given.cost_usd == pytest.approx((100 * 0.05 + 20 * 0.40) / 1e6) == made.records[0].cost_usd
    body, head = server.bodies[0], server.heads[0]
    assert head.startswith("post /v1/chat/completions ") and f"authorization: bearer {KEY}" in head
    form = body["response_format"]["json_schema"]
    assert form["strict"] and list(form["schema"]["properties"]) == ["c1", "c2", "c3"]
    assert "maximum" not in json.dumps(form) and body["temperature"] == 0
    assert KEY not in repr(made.records)


async def test_anthropics_own_format(server: Server, monkeypatch) -> None:
    monkeypatch.setitem(PROVIDERS, "anthropic", (PROVIDERS["anthropic"][0], f"{server.url}/v1", "claude-haiku-4-5"))
    usage = {"input_tokens": 10, "cache_read_input_tokens": 90, "output_tokens": 7}
    text = json.dumps(GOOD)
    blocks = [
        {"type": "thinking", "thinking": "hm"},
        {"type": "text", "text": text[:9]},
        {"type": "text", "text": text[9:]},
    ]
    server.script = [http(200, json.dumps({"content": blocks, "stop_reason": "end_turn", "usage": usage}))]
    made = bench({"provider": "anthropic", "api_key_env": "ANTHROPIC_API_KEY"}, environ={"ANTHROPIC_API_KEY": KEY})
    given = await made.judge.judge(episode())
    assert given.outcome == pytest.approx(GOOD_TOTAL) and (given.tokens_in, given.tokens_out) == (100, 7)
    assert given.cost_usd == pytest.approx((100 * 1.0 + 7 * 5.0) / 1e6)
    body, head = server.bodies[0], server.heads[0]
    assert head.startswith("post /v1/messages ") and f"x-api-key: {KEY}" in head and "anthropic-version: 2023" in head
    assert body["output_config"]["format"]["type"] == "json_schema" and body["max_tokens"] > 0
    assert [message["role"] for message in body["messages"]] == ["user"] and "grade records" in body["system"]


@pytest.mark.parametrize("name", ["openai", "groq", "gemini", "anthropic"])
def test_the_hosted_providers_are_spoken_to_at_their_own_address(name: str) -> None:
    who = choose_provider(name, None, None, "THEIR_KEY", {"THEIR_KEY": KEY})
    host = {"gemini": "googleapis.com"}.get(name, f"{name}.com")
    assert httpx.URL(who.url).scheme == "https" and httpx.URL(who.url).host.endswith(host) and who.model
    with pytest.raises(JudgeMisconfigured, match=r"THEIR_KEY.*not set"):
        choose_provider(name, None, None, "THEIR_KEY", {"THEIR_KEY": " "})


async def test_what_a_server_refuses_is_left_out_at_once_and_from_then_on(server: Server) -> None:
    def picky(body: Json) -> bytes:
        if "temperature" in body:
            return refusal(400, "Unsupported value: 'temperature' does not support 0 with this model.")
        if "max_completion_tokens" in body:
            return refusal(400, "Unrecognized request argument supplied: max_completion_tokens")
        if body.get("response_format", {}).get("type") == "json_schema":
            return refusal(400, "This model does not support response format `json_schema`")
        return chat(GOOD)

    server.script = [picky]
    made = local(server)
    results = await asyncio.gather(*(made.judge.judge(episode(answer)) for answer in "abc"))
    assert [result.outcome for result in results] == [pytest.approx(GOOD_TOTAL)] * 3
    assert [line.status for line in made.records] == ["ok"] * 3 and made.time.slept == []
    last = server.bodies[-1]
    assert last["max_tokens"] and last["response_format"] == {"type": "json_object"} and "temperature" not in last
    before = len(server.bodies)
    await made.judge.judge(episode("d"))
    assert len(server.bodies) == before + 1


# --- failures


@pytest.mark.parametrize(
    ("answer", "code", "why"),
    [
        (chat("I would say it is a fine answer."), "judge_unparsable", "no JSON object"),
        (chat(json.dumps(GOOD)[:60]), "judge_unparsable", "no score for"),
        (chat(json.dumps(GOOD)[:60], "length"), "judge_unparsable", "cut off after 20 tokens"),
        (chat({**GOOD, "c2": {"score": 11}}), "judge_unparsable", "style.kind is 11, outside 0 to 1"),
        (chat(""), "judge_unparsable", "empty"),
        (http(200, ""), "judge_unparsable", "not a JSON object"),
        (http(200, "<html>"), "judge_unparsable", "not a JSON object"),
        (http(200, "{}"), "judge_unparsable", "empty"),
        (chat("No.", "content_filter"), "judge_refused", "refused: No."),
        (
            http(400, '{"error": {"message": "Generated JSON fits no schema", "code": "json_validate_failed"}}'),
            "judge_unparsable",
            "the model wrote no such JSON: Generated JSON",
        ),
        (refusal(503, "overloaded"), "judge_transient", "503 from the judge: overloaded"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{", "judge_transient", "no answer from http://127.0.0.1"),
    ],
)
async def test_a_bad_answer_fails_after_three_tries_each_recorded(server: Server, answer, code: str, why: str) -> None:
    server.script = [answer]
    made = local(server)
    failed = await failure(made.judge)
    assert failed.code == code and why in failed.text and failed.text.endswith("(3 tries)")
    assert [(line.status, line.code, line.try_, line.total) for line in made.records] == [
        ("failed", code, number, None) for number in range(3)
    ]
    assert len(made.time.slept) == 2 and made.time.slept[0] < made.time.slept[1]


async def test_a_good_answer_after_bad_ones_counts_and_all_are_paid(server: Server) -> None:
    server.script = [chat("prose"), refusal(500, "oops"), chat(GOOD)]
    made = local(server)
    given = await made.judge.judge(episode())
    assert given.outcome == pytest.approx(GOOD_TOTAL) and given.tokens_in == 200 and given.calls == [3]
    assert [line.tokens_in for line in made.records] == [100, None, 100] and made.records[0].reply == "prose"


async def test_429_for_a_minute_is_waited_for_as_asked_by_every_call_and_then_named(server: Server) -> None:
    server.script = [refusal(429, "slow down", "retry-after: 20")]
    made = local(server, {"max_concurrency": 1})
    results = await asyncio.gather(*(made.judge.judge(episode(x)) for x in "ab"), return_exceptions=True)
    assert [result.code for result in results] == ["judge_rate_limited"] * 2
    assert "slow down" in str(results[0]) and len(made.records) == 6
    # the second call begins when the first is told to wait for the third time: it waits before it asks
    assert made.time.slept == [pytest.approx(20)] * 5
    server.script = [chat(GOOD)]
    assert (await made.judge.judge(episode("c"))).outcome == pytest.approx(GOOD_TOTAL)


async def test_a_judge_that_hangs_is_left_after_its_timeout(server: Server) -> None:
    async def never() -> bytes:
        await asyncio.Event().wait()
        return b""

    server.script = [lambda body: never()]
    made = local(server, timeout_s=0.05)
    failed = await failure(made.judge)
    assert failed.code == "judge_transient" and "no answer within 0.05 s" in failed.text


async def test_nobody_there(server: Server) -> None:
    made = bench({"base_url": "http://127.0.0.1:1/v1", "model": "m"})
    failed = await failure(made.judge)
    assert failed.code == "judge_transient" and "http://127.0.0.1:1/v1" in failed.text


@pytest.mark.parametrize(
    ("status", "code", "named"),
    [
        (401, "judge_auth", "JUDGE_API_KEY"),
        (403, "judge_auth", "JUDGE_API_KEY"),
        (404, "judge_route", "judge.options.model"),
    ],
)
async def test_what_no_episode_can_pass_stops_the_job_and_names_what_to_fix(
    server: Server, status, code, named
) -> None:
    server.script = [refusal(status, f"wrong {KEY}")]
    made = local(server, environ={"JUDGE_API_KEY": KEY})
    with pytest.raises(JudgeMisconfigured) as caught:
        await made.judge.judge(episode())
    stop = caught.value
    assert stop.code == code and named in stop.hint and str(status) in stop.message
    assert [(line.code, line.http, line.wall_s) for line in made.records] == [(code, status, 0.0)]
    assert KEY not in f"{stop} {stop.evidence} {made.records}" and "***" in stop.evidence


async def test_a_key_that_is_sent_back_is_not_kept(server: Server) -> None:
    server.script = [chat({**GOOD, "c1": {"score": 1, "reason": f"your key is {KEY}"}})]
    made = local(server, environ={"JUDGE_API_KEY": KEY})
    given = await made.judge.judge(episode())
    assert KEY not in f"{given} {made.records}" and "***" in str(given)


def escaped(text: str) -> str:
    return "".join(f"\\u{ord(char):04X}" for char in text)


@pytest.mark.parametrize(
    "content",
    [
        json.dumps(GOOD).replace("curt", KEY).replace(KEY[0], escaped(KEY[0])),
        json.dumps(GOOD).replace("curt", escaped(KEY)),
        [{"text": json.dumps(GOOD).partition("curt")[0] + KEY[:9]}, {"text": KEY[9:] + '", "score": 0.5}}'}],
    ],
    ids=["a letter escaped", "all escaped", "in two blocks"],
)
async def test_nor_is_one_that_is_sent_back_in_disguise(server: Server, content: Any) -> None:
    usage = {"prompt_tokens": 1, "completion_tokens": 1}
    inside = json.dumps({"choices": [{"message": {"content": content}, "finish_reason": "stop"}], "usage": usage})
    for body in (inside, inside.replace(KEY[:9], escaped(KEY[:9]))):
        server.script = [http(200, body)]
        made = local(server, environ={"JUDGE_API_KEY": KEY})
        with contextlib.suppress(JudgeFailed):  # the blocks lack a criterion
            await made.judge.judge(episode())
        text = made.records[-1].reply
        for _ in range(3):
            assert KEY[1:] not in text and KEY[:8] not in text and "***" in text
            text = re.sub(r"\\+u([0-9A-Fa-f]{4})", lambda found: chr(int(found[1], 16)), text)


async def test_refused_requests_are_not_tried_again_and_eight_of_them_stop_a_job(server: Server) -> None:
    server.script = [refusal(422, "the prompt is too long")]
    made = local(server)
    for _ in range(7):
        failed = await failure(made.judge)
        assert failed.code == "judge_request" and "too long" in failed.text
    with pytest.raises(JudgeMisconfigured, match="the first 8 requests") as caught:
        await made.judge.judge(episode())
    assert caught.value.code == "judge_request" and made.time.slept == []


async def test_a_server_that_sends_the_request_back_with_its_refusal_is_not_asked_for_less(server: Server) -> None:
    server.script = [lambda body: http(422, json.dumps({"detail": [{"msg": "no" * 300, "input": body}]})), chat(GOOD)]
    made = local(server)
    assert (await failure(made.judge)).code == "judge_request"
    await made.judge.judge(episode())
    assert server.bodies[-1]["response_format"]["type"] == "json_schema" and len(server.bodies) == 2


async def test_a_wrong_key_that_is_told_with_400(server: Server) -> None:
    server.script = [http(400, '[{"error": {"message": "API key not valid. Please pass a valid API key."}}]')]
    with pytest.raises(JudgeMisconfigured, match="rejects the key"):
        await local(server, environ={"JUDGE_API_KEY": KEY}).judge.judge(episode())


async def test_one_that_was_taken_makes_refusals_the_episodes_own(server: Server) -> None:
    server.script = [chat(GOOD), refusal(422, "too long")]
    made = local(server)
    await made.judge.judge(episode())
    for _ in range(12):
        assert (await failure(made.judge)).code == "judge_request"


async def test_keys_do_not_follow_a_redirect_to_another_address(server: Server) -> None:
    server.script = [http(307, "", "location: http://example.invalid/v1/chat/completions")]
    made = local(server, environ={"JUDGE_API_KEY": KEY})
    with pytest.raises(JudgeMisconfigured, match="redirects to another address"):
        await made.judge.judge(episode())


async def test_calls_in_flight_are_limited_and_told(server: Server) -> None:
    go, asked = asyncio.Event(), asyncio.Semaphore(0)

    async def answer() -> bytes:
        asked.release()
        await go.wait()
        return chat(GOOD)

    server.script = [lambda body: answer()]
    made = local(server, {"max_concurrency": 2})
    work = [asyncio.create_task(made.judge.judge(episode(x))) for x in "abcde"]
    for _ in range(2):
        await asked.acquire()
    load = made.judge.load
    assert (load.in_flight, load.queued) == (2, 3) and load.oldest_s == 0.0
    go.set()
    await asyncio.gather(*work)
    assert made.judge.load.in_flight == made.judge.load.queued == 0


async def test_a_cancelled_judgement_leaves_nothing_behind(server: Server) -> None:
    asked = asyncio.Event()

    async def never() -> bytes:
        asked.set()
        await asyncio.Event().wait()
        return b""

    server.script = [lambda body: never()]
    made = local(server)
    work = asyncio.create_task(made.judge.judge(episode()))
    await asked.wait()
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert made.judge.load.in_flight == 0 and made.records == []


async def test_an_episode_without_turns_is_not_scored(server: Server) -> None:
    played = episode()
    played.turns = []
    with pytest.raises(JudgeFailed, match="no turn"):
        await local(server).judge.judge(played)
