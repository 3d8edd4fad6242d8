"""What the gateway makes of an engine that thinks, counts its own spans, or fails; the engine is a script."""

from __future__ import annotations

import asyncio
import itertools
import json
import socket

import httpx
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.inference import openai
from trainer.inference.engine import Chunk, ContextOverflow, Engine, EngineError, Reply
from trainer.inference.gateway import Gateway
from trainer.inference.ledger import CallPolicy
from trainer.inference.messages import normal, same_message
from trainer.inference.sampling import BadRequest, call_sampling
from trainer.inference.tool_parsers import Hermes, split_reasoning
from trainer.rollout.trajectories import TokenRecordError, assemble
from trainer.rollout.types import Span

USER = {"role": "user", "content": "q"}
TOOL = {"type": "function", "function": {"name": "f"}}
END = 1
numbers = itertools.count()


class Script(Engine):
    """Answers with `chunks`, each a text, a Chunk, an error or an event to wait for; a token is a byte."""

    kind, model_name, max_model_len, weight_version = "script", "m", 4096, 0
    eos_token_ids, reasoning, tool_markers = frozenset([END]), True, Hermes.markers
    opening = ""

    def __init__(self) -> None:
        self.chunks: list = []
        self.affinities: list = []

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def load_weights(self, path, version) -> None: ...

    async def render(self, messages, tools=None, template_kwargs=None) -> list[int]:
        text = "".join(f"{m['role']}:{m['content']}\x01" for m in messages)
        return list(f"{text}assistant:{self.opening}".encode())

    async def tokenize(self, text: str) -> list[int]:
        return list(text.encode())

    async def generate(self, prompt_ids, sampling, *, affinity=None):
        self.affinities.append(affinity)
        for item in self.chunks:
            if isinstance(item, Exception):
                raise item
            if isinstance(item, asyncio.Event):
                await item.wait()
                continue
            yield item if isinstance(item, Chunk) else Chunk(list(item.encode()), [-1.0] * len(item.encode()), 0)

    def decode(self, token_ids) -> str:
        return bytes(i for i in token_ids if i != END).decode(errors="replace")

    async def derender(self, token_ids, tools=None) -> Reply:
        reasoning, text = split_reasoning(self.decode(token_ids))
        text, calls = Hermes().parse(text) if tools else (text, [])
        return Reply(text, reasoning, calls)


def last(reason: str = "stop", **fields) -> Chunk:
    return Chunk([END] if reason == "stop" else [], [-1.0] if reason == "stop" else [], 0, reason, **fields)


@pytest.fixture
async def engine() -> Script:
    return Script()


@pytest.fixture
async def gateway(engine):
    gateway = Gateway(engine)
    await gateway.start()
    yield gateway
    await gateway.stop()


@pytest.fixture
async def http():
    async with httpx.AsyncClient(timeout=30) as client:
        yield client


def open_episode(gateway: Gateway, **fields) -> str:
    cid = f"c{next(numbers)}"
    gateway.ledger.open(cid, CallPolicy("train", **({"temperature": 1.0, "max_tokens": 100} | fields)))
    return cid


async def ask(gateway, http, cid: str, **body) -> httpx.Response:
    return await http.post(gateway.chat_url(cid), json={"messages": [USER], **body})


async def streamed(gateway, http, cid: str, **body) -> list[dict]:
    answer = await ask(gateway, http, cid, stream=True, **body)
    lines = [line.removeprefix("data: ") for line in answer.text.splitlines() if line]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def joined(events: list[dict], part: str) -> str:
    return "".join(e["choices"][0]["delta"].get(part) or "" for e in events if e.get("choices"))


async def test_the_engines_own_spans_win_over_the_order_of_arrival(engine, gateway, http):
    engine.chunks = [Chunk([65], [-1.0], 3), Chunk([66], [-1.0], 4), Chunk([END], [-1.0], 4, "stop", None, [(0, 3, 4)])]
    cid = open_episode(gateway)
    body = (await ask(gateway, http, cid)).json()
    (call,) = gateway.ledger.close(cid).calls
    assert call.spans == [Span(0, 3, 4)] and body["rltui"]["weight_version"] == 4
    assert engine.affinities == [cid]
    engine.chunks[-1] = Chunk([END], [-1.0], 4, "stop", None, [(0, 2, 4)])  # an account with a hole is found
    cid = open_episode(gateway)
    await ask(gateway, http, cid)
    with pytest.raises(TokenRecordError, match="no span covers the token at token 2"):
        assemble(gateway.ledger.close(cid).calls)


@pytest.mark.parametrize("opening", ["", "<think>\n"], ids=["completion opens", "prompt opens"])
async def test_thinking_is_apart_from_the_answer_streamed_or_not(engine, gateway, http, opening):
    engine.opening = opening
    engine.chunks = [*("hm" if opening else "<think>hm"), "</thi", "nk>", "A", "B", last()]
    cid = open_episode(gateway)
    message = (await ask(gateway, http, cid)).json()["choices"][0]["message"]
    assert (message["reasoning_content"], message["content"]) == ("hm", "AB")
    events = await streamed(gateway, http, cid)
    assert (joined(events, "reasoning_content"), joined(events, "content")) == ("hm", "AB")
    # cut off while it thinks: none of it is the answer
    engine.chunks = ["hm" if opening else "<think>hm", last("length")]
    message = (await ask(gateway, http, cid)).json()["choices"][0]["message"]
    assert (message["reasoning_content"], message["content"]) == ("hm", "")
    events = await streamed(gateway, http, cid)
    assert (joined(events, "reasoning_content"), joined(events, "content")) == ("hm", "")


async def test_text_flows_while_the_call_is_held_back(engine, gateway, http):
    engine.chunks = ["See", " <", "b> ", "<tool", '_call>{"name": "f", "arguments": {}}', "</tool_call>", last()]
    cid = open_episode(gateway)
    events = await streamed(gateway, http, cid, tools=[TOOL])
    assert joined(events, "content") == "See <b> " and "_call" not in joined(events, "content")
    (call,) = [c for e in events for c in e["choices"][0]["delta"].get("tool_calls", ())]
    assert call["index"] == 0 and call["function"] == {"name": "f", "arguments": "{}"}
    assert events[-1]["choices"][0]["finish_reason"] == "tool_calls"
    # the same text without tools is an answer like any other
    events = await streamed(gateway, http, cid)
    assert joined(events, "content").endswith("</tool_call>")
    # and so is one that holds no call
    engine.chunks = ["<tool_call>nothing</tool_call>", last()]
    events = await streamed(gateway, http, cid, tools=[TOOL])
    assert joined(events, "content") == "<tool_call>nothing</tool_call>"
    assert events[-1]["choices"][0]["finish_reason"] == "stop"


async def test_no_part_of_a_stop_string_is_streamed(engine, gateway, http):
    engine.chunks = ["a E", "N", "x EN", "D", last("stop", stop_detail="END")]
    cid = open_episode(gateway)
    events = await streamed(gateway, http, cid, stop=["END"])
    assert joined(events, "content") == "a ENx " == gateway.ledger.close(cid).calls[0].response["content"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (EngineError("out of memory"), 503, "engine_error"),
        (ContextOverflow("too long"), 400, "context_length_exceeded"),
    ],
)
async def test_an_error_before_the_first_token_has_its_status(engine, gateway, http, error, status, code, stream):
    engine.chunks = [error]
    cid = open_episode(gateway)
    answer = await ask(gateway, http, cid, stream=stream)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert answer.headers["x-should-retry"] == "false"
    record = gateway.ledger.close(cid)
    assert [(e.code, e.status) for e in record.errors] == [(code, status)]
    assert record.calls[0].finish_reason == "error"


async def rest_after_first_text(gateway, http, cid: str, then) -> dict:
    """The last event of a stream; `then` is called when its first text is there."""
    async with http.stream("POST", gateway.chat_url(cid), json={"messages": [USER], "stream": True}) as answer:
        last_line = ""
        async for line in answer.aiter_lines():
            if '"content":"abc"' in line:
                then()
            last_line = line or last_line
    return json.loads(last_line.removeprefix("data: "))


async def test_an_error_in_the_middle_of_a_stream_is_its_last_event(engine, gateway, http):
    shown = asyncio.Event()
    engine.chunks = ["abc", shown, EngineError("gone")]
    cid = open_episode(gateway)
    assert (await rest_after_first_text(gateway, http, cid, shown.set))["error"]["code"] == "engine_error"
    (call,) = gateway.ledger.close(cid).calls
    assert call.finish_reason == "error" and call.completion_token_ids == list(b"abc")


async def test_the_end_of_the_episode_is_the_last_event_of_a_stream(engine, gateway, http):
    engine.chunks = ["abc", asyncio.Event()]
    cid, records = open_episode(gateway), []
    event = await rest_after_first_text(gateway, http, cid, lambda: records.append(gateway.ledger.close(cid)))
    assert event["error"]["code"] == "episode_finished"
    assert [c.finish_reason for c in records[0].calls] == ["abort"]


async def test_a_stream_without_an_end_is_an_engine_error(engine, gateway, http):
    engine.chunks = ["abc"]
    answer = await ask(gateway, http, open_episode(gateway))
    assert answer.status_code == 503 and "without a reason" in answer.json()["error"]["message"]


async def test_parallel_calls_do_not_pass_the_limit(engine, gateway, http):
    engine.chunks, render = ["a", last()], engine.render

    async def slow(*args):
        await asyncio.sleep(0.05)
        return await render(*args)

    engine.render = slow
    cid = open_episode(gateway, call_limit=2)
    answers = await asyncio.gather(*(ask(gateway, http, cid) for _ in range(5)))
    assert sorted(a.status_code for a in answers) == [200, 200, 429, 429, 429]
    record = gateway.ledger.close(cid)
    assert [c.call for c in record.calls] == [0, 1] and len(record.errors) == 3


async def test_alternatives_are_named_as_not_given(engine, gateway, http):
    engine.chunks = ["é", last()]
    cid = open_episode(gateway)
    body = (await ask(gateway, http, cid, logprobs=True, top_logprobs=5)).json()
    assert body["rltui"]["ignored"] == ["top_logprobs"]
    content = body["choices"][0]["logprobs"]["content"]
    assert len(content) == 3 and all(x["top_logprobs"] == [] for x in content)
    assert content[0]["bytes"] is None and content[2] == {"token": "", "logprob": -1, "bytes": [], "top_logprobs": []}
    assert gateway.ledger.close(cid).forced == {}


async def test_an_app_that_fails_in_a_loop_does_not_fill_the_memory(gateway, http):
    cid = open_episode(gateway)
    episode = gateway.ledger.find(cid)
    for _ in range(5000):
        episode.fail("x", 400, 0, "y")
    assert len(gateway.ledger.close(cid).errors) == 1000


async def test_answers_leave_at_once(engine, gateway, http):
    """Nagle's algorithm waits 40 ms for the client's acknowledgement between head and body of every answer."""
    await http.get(f"{gateway.url}/health")
    (connection,) = gateway._server.server_state.connections
    assert connection.transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


async def test_a_text_completion_is_all_that_was_sampled(engine, gateway, http):
    engine.chunks = ["<think>hm</think>A <tool_call>", last()]
    cid = open_episode(gateway)
    url = f"{gateway.base_url(cid)}/completions"
    whole = (await http.post(url, json={"prompt": "q"})).json()["choices"][0]["text"]
    answer = await http.post(url, json={"prompt": "q", "stream": True})
    parts = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: {")]
    assert whole == "".join(p["choices"][0]["text"] for p in parts) == "<think>hm</think>A <tool_call>"
    assert [c.response["content"] for c in gateway.ledger.close(cid).calls] == [whole] * 2


@pytest.mark.parametrize("stream", [False, True])
async def test_a_call_that_the_end_of_the_run_cuts_off_is_no_fault_of_ours(engine, gateway, http, caplog, stream):
    engine.chunks = ["a", begun := asyncio.Event(), asyncio.Event()]
    begun.set()
    asked = asyncio.create_task(ask(gateway, http, open_episode(gateway), stream=stream))
    while not engine.affinities:  # noqa: ASYNC110 - a script has no event for it
        await asyncio.sleep(0.01)
    await gateway.stop()
    await asyncio.gather(asked, return_exceptions=True)
    assert "Exception in ASGI" not in caplog.text and "Traceback" not in caplog.text


def test_half_a_character_in_a_body_is_replaced():
    whole = openai.parse_body(rb'{"messages": [{"role": "user", "content": "a\ud83d b\ud83d\ude00"}]}')
    assert whole["messages"][0]["content"] == "a\ufffd b\U0001f600"
    for broken in (rb'{"a": "\ud800}', rb'{"a": "\ud800"} x', b'{"a": "\xff"}'):
        with pytest.raises(BadRequest, match="not JSON"):
            openai.parse_body(broken)


async def test_a_fault_of_ours_is_an_openai_error_without_a_traceback(engine, gateway, http, caplog):
    async def broken(*args):
        raise ZeroDivisionError("secret inner thing")

    engine.render = broken
    answer = await ask(gateway, http, open_episode(gateway))
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "internal_error")
    assert "secret" not in answer.text and "ZeroDivisionError" in caplog.text


FIELD = st.sampled_from(
    ["tools", "functions", "function", "name", "parameters", "arguments", "type", "text", "stop", "temperature", "n",
     "tool_choice", "function_call", "tool_calls", "stream", "stream_options", "logprobs", "content", "max_tokens",
     "chat_template_kwargs", "top_p", "seed", "response_format", "logit_bias", "include_usage", "id"]
)  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELD, inner, max_size=4),
    max_leaves=12,
)

MESSAGE = {"content": JSON, "tool_calls": JSON, "function_call": JSON, "name": JSON, "reasoning": JSON}


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_no_body_breaks_the_reading_of_requests(data):
    """Wrong types anywhere are refused as such: never another exception."""
    body = {
        "messages": data.draw(st.lists(st.fixed_dictionaries({"role": st.text(max_size=4)}, optional=MESSAGE)) | JSON),
        **data.draw(st.dictionaries(FIELD, JSON, max_size=5)),
    }
    try:
        body = openai.parse_body(msgspec.json.encode(body))
        messages, _ = openai.parse_messages(body), openai.parse_tools(body)
        call_sampling(body, CallPolicy(data.draw(st.sampled_from(["train", "eval"])), 1.0, 9), 0)
        openai.Shape(body, "m", chat=True)
    except BadRequest as error:
        assert str(error)
        return
    for message in messages:
        assert same_message(normal(message), message) and isinstance(normal(message)["content"], str)
