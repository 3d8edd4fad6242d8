"""The server that episodes call: addresses, refusals, streams, tool calls."""

import asyncio
import json

import httpx
import pytest

from rltui.smoke.control import Control
from rltui.smoke.policies.base import Call, Reply, tool_call
from rltui.smoke.policies.scripted import ScriptedPolicy
from rltui.smoke.policy_server import Book, PolicyServer
from rltui.smoke.report import Turn

BODY = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


@pytest.fixture
async def server():
    server = PolicyServer(Control())
    await server.start()
    yield server
    await server.stop()


def book(server: PolicyServer, *replies: Reply, limit: int = 4) -> Book:
    made = Book("c-1", 0, 0, ScriptedPolicy(replies or [Reply("hello")]), limit, lambda turn: None, lambda tail: None)
    server.open(made)
    return made


async def post(url: str, body=BODY) -> httpx.Response:
    async with httpx.AsyncClient(trust_env=False, timeout=60) as http:
        return await http.post(url, json=body)


async def test_every_form_of_the_address_reaches_the_episode(server) -> None:
    made = book(server, limit=9)
    forms = [
        server.chat_url("c-1"),
        server.base_url("c-1") + "/chat/completions",
        f"{server.public_url}/?cid=c-1/v1/chat/completions",
        f"{server.public_url}/v1/chat/completions/chat/completions?cid=c-1",
    ]
    for form in forms:
        answer = (await post(form)).json()
        assert answer["choices"][0]["message"] == {"role": "assistant", "content": "hello"}
        assert answer["rltui"]["cid"] == "c-1"
    assert len(made.arrivals) == 4 and not server.strays


async def test_a_call_without_the_query_is_a_stray(server) -> None:
    book(server)
    answer = await post(f"{server.public_url}/v1/chat/completions")
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "cid_missing")
    other = await post(server.chat_url("c-2"))
    assert other.status_code == 404
    assert [stray.url for stray in server.strays] == ["/v1/chat/completions", "/v1/chat/completions?cid=c-2"]
    server.close("c-1")
    await post(server.chat_url("c-1"))  # late, but no mistake
    assert len(server.strays) == 2


@pytest.mark.parametrize(
    "body", [{}, {"messages": []}, {"messages": "x"}, {"messages": [1]}, {**BODY, "n": 2}, [], "x", None]
)
async def test_a_malformed_body_is_refused_and_recorded(server, body) -> None:
    made = book(server)
    assert (await post(server.chat_url("c-1"), body)).status_code == 400
    assert made.arrivals[0].status == 400 and made.turns[0].error


async def test_too_many_calls_end_the_episode(server) -> None:
    book(server, limit=1)
    await post(server.chat_url("c-1"))
    answer = await post(server.chat_url("c-1"))
    assert (answer.status_code, answer.json()["error"]["code"]) == (429, "call_limit")
    assert answer.headers["x-should-retry"] == "false"


async def test_tool_calls_also_in_the_old_form(server) -> None:
    book(server, Reply(tool_calls=(tool_call("f", "{}", 0),)))
    choice = (await post(server.chat_url("c-1"))).json()["choices"][0]
    assert choice["finish_reason"] == "tool_calls" and choice["message"]["tool_calls"][0]["function"]["name"] == "f"
    old = (await post(server.chat_url("c-1"), {**BODY, "functions": [{"name": "f"}]})).json()["choices"][0]
    assert old["message"]["function_call"] == {"name": "f", "arguments": "{}"}


async def test_streams_carry_the_same_answer(server) -> None:
    book(server, Reply(text="hello", prompt_tokens=3, completion_tokens=1))
    body = {**BODY, "stream": True, "stream_options": {"include_usage": True}}
    text = (await post(server.chat_url("c-1"), body)).text
    chunks = [line.removeprefix("data: ") for line in text.splitlines() if line]
    assert chunks[-1] == "[DONE]"
    parsed = [json.loads(chunk) for chunk in chunks[:-1]]
    assert "".join(c["choices"][0]["delta"].get("content", "") for c in parsed if c["choices"]) == "hello"
    assert parsed[-1]["usage"]["total_tokens"] == 4


async def test_new_messages_of_each_turn(server) -> None:
    made = book(server)
    await post(server.chat_url("c-1"))
    more = [*BODY["messages"], {"role": "assistant", "content": "hello"}, {"role": "user", "content": "go on"}]
    await post(server.chat_url("c-1"), {**BODY, "messages": more})
    assert [m["content"] for m in made.turns[1].messages_tail] == ["hello", "go on"]


async def test_a_reply_that_comes_when_the_episode_has_ended_is_no_turn_of_it(server) -> None:
    asked, may = asyncio.Event(), asyncio.Event()

    class Slow(ScriptedPolicy):
        async def reply(self, call: Call) -> Reply:
            asked.set()
            await may.wait()
            return await super().reply(call)

    told: list[Turn] = []
    server.open(Book("c-1", 0, 0, Slow([Reply("hello")]), 4, told.append, lambda tail: None))
    answer = asyncio.create_task(post(server.chat_url("c-1")))
    await asked.wait()
    server.close("c-1")
    may.set()
    assert (await answer).status_code == 200 and told == []
