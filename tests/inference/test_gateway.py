"""The gateway over real HTTP, in front of a real engine process."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import time

import httpx
import pytest
import pytest_asyncio

from tests.inference.conftest import held, reference_logprobs
from tests.waiting import comes
from trainer.inference.engine import EngineError
from trainer.inference.gateway import Gateway, GatewayError
from trainer.inference.ledger import CallPolicy
from trainer.inference.local import LocalEngine
from trainer.inference.vllm import restarts
from trainer.rollout.trajectories import assemble

pytestmark = pytest.mark.asyncio(loop_scope="module")

USER = {"role": "user", "content": "Hello?"}
numbers = itertools.count()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(tiny):
    engine = LocalEngine(tiny, dtype="float32", max_model_len=300, max_num_seqs=16, threads=1)
    gateway = Gateway(engine)
    await gateway.start()
    await engine.start()
    yield gateway
    await gateway.stop()
    await engine.stop()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def http():
    async with httpx.AsyncClient(timeout=120) as client:
        yield client


def open_episode(gateway: Gateway, split: str = "train", **fields) -> str:
    cid = f"job-0-0-0-0-{next(numbers)}"
    defaults = {"temperature": 1.0, "max_tokens": 12, "call_limit": 8, "seed_parts": (0, 0, 0, next(numbers))}
    gateway.ledger.open(cid, CallPolicy(split, **(defaults | fields)))
    return cid


async def chat(gateway, http, cid, messages, **body) -> dict:
    answer = await http.post(gateway.chat_url(cid), json={"model": "any", "messages": messages, **body})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_one_call_is_answered_and_recorded(gateway, http, hf, tokenizer):
    cid = open_episode(gateway, temperature=0.8)
    answer = await http.post(
        gateway.chat_url(cid),
        json={"model": "m", "messages": [USER], "top_p": 0.5, "seed": 3, "logprobs": True},
        headers={"Authorization": "Bearer secret-of-the-app"},
    )
    body = answer.json()
    record = gateway.ledger.close(cid)
    (call,) = record.calls
    assert body["object"] == "chat.completion" and body["rltui"] == {"cid": cid, "call": 0, "weight_version": 0}
    assert body["choices"][0]["message"] == call.response
    assert call.response["content"] == tokenizer.decode(call.completion_token_ids, skip_special_tokens=True)
    assert body["usage"]["completion_tokens"] == len(call.completion_token_ids) == len(call.logprobs)
    assert [x["logprob"] for x in body["choices"][0]["logprobs"]["content"]] == call.logprobs
    assert call.prompt_token_ids == tokenizer.apply_chat_template([USER], add_generation_prompt=True, return_dict=False)
    assert [(s.start, s.end, s.weight_version) for s in call.spans] == [(0, len(call.logprobs), 0)]
    assert record.forced == {"top_p": 1, "seed": 1} and call.forced == {"top_p": 0.5, "seed": 3}
    assert call.sampling["temperature"] == 0.8 and call.prefix == "first"
    assert 0 < call.t_queued <= call.t_start <= call.t_first <= call.t_end
    assert "secret" not in repr(record)
    expected = reference_logprobs(hf, call.prompt_token_ids, call.completion_token_ids, 0.8)
    assert call.logprobs == pytest.approx(expected.tolist(), abs=1e-5)


async def test_the_times_of_a_call_are_in_order_though_the_wall_clock_goes_back(gateway, http, monkeypatch):
    back = itertools.count(2_000_000_000, -3600)
    monkeypatch.setattr(time, "time", lambda: float(next(back)))
    cid = open_episode(gateway)
    await chat(gateway, http, cid, [USER])
    (call,) = gateway.ledger.close(cid).calls
    assert call.t_queued <= call.t_start <= call.t_first <= call.t_end < call.t_queued + 60


async def test_members_of_a_group_draw_by_their_own_seeds(gateway, http):
    """Sixteen calls at once; the same episode place gives the same tokens, another member others."""

    async def play(member: int) -> list[int]:
        cid = open_episode(gateway, seed_parts=(0, 5, 1, member))
        await chat(gateway, http, cid, [USER])
        return gateway.ledger.close(cid).calls[0].completion_token_ids

    first = await asyncio.gather(*(play(m) for m in range(16)))
    second = await asyncio.gather(*(play(m) for m in reversed(range(16))))
    assert first == second[::-1]
    assert len({tuple(t) for t in first}) == 16


async def test_turns_join_by_ids(gateway, http):
    cid = open_episode(gateway)
    messages = [USER]
    for turn in range(3):
        body = await chat(gateway, http, cid, messages)
        messages = [*messages, body["choices"][0]["message"], {"role": "user", "content": f"and {turn}?"}]
    calls = gateway.ledger.close(cid).calls
    # sampled bytes that are no text come back as one replacement character: the same text, other ids
    assert calls[0].prefix == "first" and all(c.prefix == ("realign" if c.drift else "clean") for c in calls[1:])
    for before, after in itertools.pairwise(calls):
        history = before.prompt_token_ids + before.completion_token_ids
        assert after.prompt_token_ids[: len(history)] == history
    assembly = assemble(calls)
    assert assembly.counts["clean"] + assembly.counts["realign"] == 2 and len(assembly.branches) == 1
    assert sum(assembly.branches[0].mask) == sum(len(c.completion_token_ids) for c in calls)


async def test_edited_history_is_a_fork_and_a_repeat_is_named(gateway, http):
    cid = open_episode(gateway)
    body = await chat(gateway, http, cid, [USER])
    edited = {**body["choices"][0]["message"], "content": "something else"}
    await chat(gateway, http, cid, [USER, edited, USER])
    await chat(gateway, http, cid, [USER])
    calls = gateway.ledger.close(cid).calls
    assert [c.prefix for c in calls] == ["first", "fork", "fork"]
    assert [c.repeat_of for c in calls] == [None, None, 0]
    assert calls[2].completion_token_ids != calls[0].completion_token_ids  # the call is part of the seed


async def test_a_stop_string_is_cut_from_the_text_and_kept_in_the_tokens(gateway, http):
    place = (1, 2, 3, 4)
    cid = open_episode(gateway, seed_parts=place, max_tokens=60)
    text = (await chat(gateway, http, cid, [USER]))["choices"][0]["message"]["content"]
    ids = gateway.ledger.close(cid).calls[0].completion_token_ids
    stop = next(c for c in text[3:] if c.isascii() and c.isprintable() and c not in text[:3])
    cid = open_episode(gateway, seed_parts=place, max_tokens=60)
    choice = (await chat(gateway, http, cid, [USER], stop=[stop]))["choices"][0]
    (call,) = gateway.ledger.close(cid).calls
    assert choice["message"]["content"] == text[: text.index(stop)]
    assert (choice["finish_reason"], call.stop_detail) == ("stop", stop)
    assert call.completion_token_ids == ids[: len(call.completion_token_ids)]
    assert stop in (await gateway._engine.derender(call.completion_token_ids)).text


async def test_streaming_gives_the_same_text(gateway, http):
    place = (4, 4, 4)
    cid = open_episode(gateway, seed_parts=place)
    whole = (await chat(gateway, http, cid, [USER]))["choices"][0]
    cid = open_episode(gateway, seed_parts=place)
    request = {"messages": [USER], "stream": True, "stream_options": {"include_usage": True}}
    async with http.stream("POST", gateway.chat_url(cid), json=request) as answer:
        lines = [line.removeprefix("data: ") async for line in answer.aiter_lines() if line]
    assert lines.pop() == "[DONE]"
    events = [json.loads(line) for line in lines]
    assert events[-1]["usage"]["completion_tokens"] > 0 and events[-1]["choices"] == []
    text = "".join(e["choices"][0]["delta"].get("content", "") for e in events[:-1])
    assert text == whole["message"]["content"]
    assert events[-2]["choices"][0]["finish_reason"] == whole["finish_reason"]
    (call,) = gateway.ledger.close(cid).calls
    assert call.response["content"] == text


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_leaves_aborts_the_call(gateway, http, stream):
    cid = open_episode(gateway, max_tokens=250)
    request = {"messages": [USER], "stream": stream}
    episode = gateway.ledger.find(cid)
    async with held(gateway._engine, after=8):
        if stream:
            async with http.stream("POST", gateway.chat_url(cid), json=request) as answer:
                async for line in answer.aiter_lines():
                    if '"content":"' in line:
                        break
        else:
            asked = asyncio.create_task(http.post(gateway.chat_url(cid), json=request))
            await comes(lambda: any(call.completion_token_ids for call in episode.partial.values()))
            asked.cancel()
        await comes(lambda: not episode.partial)
    (call,) = gateway.ledger.close(cid).calls
    assert call.finish_reason == "abort" and len(call.completion_token_ids) < 250


async def test_the_end_of_the_episode_aborts_what_still_runs(gateway, http):
    cid = open_episode(gateway, max_tokens=250)
    async with held(gateway._engine):
        running = asyncio.create_task(http.post(gateway.chat_url(cid), json={"messages": [USER]}))
        await comes(lambda: gateway.ledger.find(cid).partial)
        (call,) = gateway.ledger.close(cid).calls
    assert call.finish_reason == "abort"
    answer = await running
    assert (answer.status_code, answer.json()["error"]["code"]) == (410, "episode_finished")


async def test_text_completions_in_both_address_forms(gateway, http):
    cid = open_episode(gateway)
    for url in (f"{gateway.url}/v1/completions?cid={cid}", f"{gateway.base_url(cid)}/completions"):
        body = (await http.post(url, json={"prompt": "abc", "max_tokens": 3})).json()
        assert body["object"] == "text_completion" and isinstance(body["choices"][0]["text"], str)
    assert [c.prompt_token_ids for c in gateway.ledger.close(cid).calls] == [await gateway._engine.tokenize("abc")] * 2


async def test_base_url_and_repaired_addresses(gateway, http):
    cid = open_episode(gateway)
    urls = [
        f"{gateway.base_url(cid)}/chat/completions",
        f"{gateway.chat_url(cid)}/v1/chat/completions",
        f"{gateway.url}/v1/chat/completions/chat/completions?cid={cid}",
    ]
    for url in urls:
        assert (await http.post(url, json={"messages": [USER]})).status_code == 200
    record = gateway.ledger.close(cid)
    assert (len(record.calls), record.malformed) == (3, 2)


async def test_models_and_health(gateway, http):
    models = (await http.get(f"{gateway.url}/v1/models")).json()
    assert models["data"][0]["id"] == "builtin:tiny"
    assert (await http.get(f"{gateway.base_url('x')}/models/builtin:tiny")).json() == models["data"][0]
    assert (await http.get(f"{gateway.url}/health")).json() == {"status": "ok", "weight_version": 0}


async def test_ids_and_limits_are_checked(gateway, http):
    async def status(url: str, **body) -> tuple[int, str]:
        answer = await http.post(url, json={"messages": [USER], **body})
        return answer.status_code, answer.json()["error"]["code"]

    assert await status(gateway.chat_url("nobody")) == (404, "unknown_cid")
    assert await status(f"{gateway.url}/v1/chat/completions") == (400, "missing_cid")
    assert await status(f"{gateway.url}/v1/embeddings?cid=x") == (404, "not_found")
    assert (await http.get(gateway.chat_url("x"))).status_code == 405
    for method in ("PUT", "PATCH", "DELETE", "OPTIONS"):
        refused = await http.request(method, gateway.chat_url("x"))
        assert refused.status_code == 405 and refused.headers["allow"] == "POST"
        assert refused.json()["error"]["code"] == "method_not_allowed"
        assert (await http.request(method, f"{gateway.url}/v1/models")).json()["error"]["code"] == "method_not_allowed"

    cid = open_episode(gateway, call_limit=1)
    await chat(gateway, http, cid, [USER])
    assert await status(gateway.chat_url(cid)) == (429, "call_limit")
    long = {"role": "user", "content": "x" * 400}
    other = open_episode(gateway, call_limit=1)
    assert await status(gateway.chat_url(other), messages=[long]) == (400, "context_length_exceeded")
    # a prompt that leaves less room than asked for gets what is left
    fits = {"role": "user", "content": "x" * (300 - 30)}
    body = await chat(gateway, http, other, [fits], max_tokens=12)
    assert body["usage"]["total_tokens"] <= 300
    assert [e.code for e in gateway.ledger.close(cid).errors] == ["call_limit"]
    assert [(e.code, e.status, e.call) for e in gateway.ledger.close(other).errors] == [
        ("context_length_exceeded", 400, 0)
    ]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"messages": []}',
        b'{"messages": "hi"}',
        b'{"messages": [5]}',
        b'{"messages": [{"content": "x"}]}',
        b'{"messages": [{"role": "user", "content": 5}]}',
        b'{"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]}',
        b'{"messages": [{"role": "user", "content": "x"}], "n": 2}',
        b'{"messages": [{"role": "user", "content": "x"}], "max_tokens": "9"}',
        b'{"messages": [{"role": "user", "content": "x"}], "stop": {}}',
        b'{"messages": [{"role": "user", "content": "x"}], "tools": "x"}',
        b'{"messages": [{"role": "user", "content": "x"}], "stream": 1}',
        b'{"messages": [{"role": "user", "content": "x"}], "chat_template_kwargs": {"tokenize": false}}',
        b'{"messages": [{"role": "user", "content": "x", "tool_calls": [1]}]}',
        b'{"messages": [{"role": "user", "content": "' + b"x" * 10_500_000 + b'"}]}',
    ],
    ids=lambda body: body[:40].decode(errors="replace"),
)
async def test_hostile_bodies_get_an_openai_error(gateway, http, body):
    cid = open_episode(gateway)
    answer = await http.post(gateway.chat_url(cid), content=body)
    error = answer.json()["error"]
    assert (answer.status_code, error["type"]) == (400, "invalid_request_error")
    assert len(error["message"]) < 500 and "Traceback" not in answer.text
    assert len(gateway.ledger.close(cid).errors) == 1


async def test_a_taken_port_names_the_key(gateway):
    port = int(gateway.url.rsplit(":", 1)[1])
    with pytest.raises(GatewayError, match=rf"inference\.gateway_port = {port} cannot be used"):
        await Gateway(gateway._engine, port=port).start()
    with pytest.raises(GatewayError, match=r"inference\.gateway_host = '192\.0\.2\.1' cannot be used"):
        await Gateway(gateway._engine, "192.0.2.1").start()


async def test_a_huge_prompt_does_not_hold_up_the_coordinator(gateway, http):
    body = {"messages": [{"role": "user", "content": "word " * 200_000}]}
    asked = asyncio.create_task(http.post(gateway.chat_url(open_episode(gateway)), json=body))
    turns = 0
    while not asked.done():
        await asyncio.sleep(0.005)
        turns += 1
    assert asked.result().json()["error"]["code"] == "context_length_exceeded"
    assert turns > 20  # tokenized on the loop, it would be a handful


async def test_new_weights_split_the_spans_of_a_running_call(gateway, http, hf, tmp_path):
    from tests.inference.conftest import write_update

    write_update(tmp_path, hf, ["model.layers.0.self_attn.v_proj.weight"], scale=0.1)
    for version in range(3, 13):  # a call may be over before the weights are loaded: then once more
        cid = open_episode(gateway, max_tokens=250)
        running = asyncio.create_task(chat(gateway, http, cid, [USER]))
        await comes(lambda cid=cid: any(c.completion_token_ids for c in gateway.ledger.find(cid).partial.values()))
        before = gateway._engine.weight_version
        await gateway._engine.load_weights(tmp_path, version)
        body = await running
        (call,) = gateway.ledger.close(cid).calls
        if len(call.spans) > 1:
            break
    assert [s.weight_version for s in call.spans] == [before, version] and body["rltui"]["weight_version"] == version
    assert call.spans[0].end == call.spans[1].start and call.spans[1].end == len(call.completion_token_ids)
    with pytest.raises(EngineError, match="could not load weight version 99"):
        await gateway._engine.load_weights(tmp_path / "nothing", 99)
    assert gateway._engine.weight_version == version


async def test_an_engine_that_dies_fails_its_calls_and_says_so(gateway, http, monkeypatch):
    """Last: it kills the module's engine."""
    monkeypatch.setattr(restarts, "BACKOFF_S", ())  # it is not started again
    cid = open_episode(gateway, max_tokens=250)
    os.kill(gateway._engine.pid, signal.SIGSTOP)  # or it might be done with the call first
    running = asyncio.create_task(http.post(gateway.chat_url(cid), json={"messages": [USER]}))
    await comes(lambda: gateway.ledger.find(cid).partial)
    os.kill(gateway._engine.pid, signal.SIGKILL)
    answer = await running
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "engine_error")
    assert "process ended" in answer.json()["error"]["message"]
    await asyncio.wait_for(asyncio.shield(gateway._engine.ended), 60)
    record = gateway.ledger.close(cid)
    assert ([c.finish_reason for c in record.calls], [e.code for e in record.errors]) == (["error"], ["engine_error"])
    again = open_episode(gateway)
    assert (await http.post(gateway.chat_url(again), json={"messages": [USER]})).status_code == 503
