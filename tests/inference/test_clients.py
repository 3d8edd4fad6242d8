"""Clients as their users install them play episodes through the gateway, in front of a real engine process; what they
sent and got is recorded exactly."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging

import httpx
import openai
import pytest
import pytest_asyncio

from tests.inference.conftest import held, reference_logprobs
from tests.inference.toolmodel import ANSWER, ASK, PLAIN, PLAIN_ANSWER, RESULT, TOOLS, teach
from tests.waiting import comes
from trainer.inference.chat import Chat
from trainer.inference.gateway import Gateway
from trainer.inference.ledger import CallPolicy, CallRecord
from trainer.inference.local import LocalEngine
from trainer.rollout.trajectories import assemble

pytestmark = pytest.mark.asyncio(loop_scope="module")

TEMPERATURE = 0.25  # of a model that knows its answers: near 1 by chance it would not say them
numbers = itertools.count()


class World:
    """One gateway, and how to check what it recorded."""

    def __init__(self, gateway: Gateway, model, chat: Chat) -> None:
        self.gateway, self.model, self.chat = gateway, model, chat

    def open(self, **fields) -> str:
        cid = f"job-0-0-0-0-{next(numbers)}"
        defaults = {"temperature": TEMPERATURE, "max_tokens": 120, "call_limit": 8, "seed_parts": (next(numbers),)}
        self.gateway.ledger.open(cid, CallPolicy("train", **(defaults | fields)))
        return cid

    def close(self, cid: str) -> CallRecord:
        """The record, every token of it checked against the text and a fresh forward pass."""
        record = self.gateway.ledger.close(cid)
        for call in record.calls:
            text = self.chat.decode(call.completion_token_ids)
            said = call.response["content"] or ""
            assert text.startswith(said) if call.response.get("tool_calls") else text == said
            expected = reference_logprobs(
                self.model, call.prompt_token_ids, call.completion_token_ids, call.sampling["temperature"]
            )
            assert call.logprobs == pytest.approx(expected.tolist(), abs=1e-4)
        return record


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(tiny, tmp_path_factory):
    resolved, model = teach(tiny, tmp_path_factory.mktemp("model"))
    engine = LocalEngine(resolved, dtype="float32", max_model_len=1024, max_num_seqs=8, threads=1)
    gateway = Gateway(engine)
    await asyncio.gather(gateway.start(), engine.start())
    yield World(gateway, model, Chat(resolved.path))
    await gateway.stop()
    await engine.stop()


@pytest_asyncio.fixture
def async_client(world):
    def make(cid: str, **options):
        return openai.AsyncOpenAI(base_url=world.gateway.base_url(cid), api_key="any", **options)

    return make


def check_tool_episode(record: CallRecord, *, kinds=("first", "realign")) -> None:
    first, second = record.calls
    (call,) = first.response["tool_calls"]
    assert (call["function"]["name"], json.loads(call["function"]["arguments"])) == ("look", {"city": "Rome"})
    assert (first.finish_reason, first.response["content"]) == ("tool_calls", "I see.")
    assert (second.finish_reason, second.response["content"]) == ("stop", ANSWER)
    assert (first.prefix, second.prefix) == kinds
    history = first.prompt_token_ids + first.completion_token_ids
    assert second.prompt_token_ids[: len(history)] == history
    assembly = assemble(record.calls)
    (branch,) = assembly.branches
    assert assembly.counts["realign"] == 1 and assembly.counts["drift"] == second.drift > 0
    assert branch.ids == second.prompt_token_ids + second.completion_token_ids
    assert sum(branch.mask) == len(first.completion_token_ids) + len(second.completion_token_ids)


async def test_openai_async_plays_a_tool_episode(world, async_client):
    cid = world.open()
    client = async_client(cid)
    messages = [ASK]
    first = await client.chat.completions.create(model="any", messages=messages, tools=TOOLS)
    choice = first.choices[0]
    assert choice.finish_reason == "tool_calls" and choice.message.content == "I see."
    (call,) = choice.message.tool_calls
    assert call.function.name == "look" and call.id.startswith("call_")
    messages += [choice.message, {"role": "tool", "tool_call_id": call.id, "content": RESULT}]  # the SDK's own object
    second = await client.chat.completions.create(model="any", messages=messages, tools=TOOLS, logprobs=True)
    assert second.choices[0].message.content == ANSWER
    record = world.close(cid)
    check_tool_episode(record)
    assert [x.logprob for x in second.choices[0].logprobs.content] == record.calls[1].logprobs
    assert second.usage.completion_tokens == len(record.calls[1].completion_token_ids)
    assert second.model_extra["rltui"]["call"] == 1


async def test_openai_streams_text_and_tool_calls(world, async_client):
    cid = world.open()
    client = async_client(cid)
    options = {"model": "any", "tools": TOOLS, "stream": True, "stream_options": {"include_usage": True}}
    chunks = [c async for c in await client.chat.completions.create(messages=[ASK], **options, logprobs=True)]
    assert chunks[-1].choices == [] and chunks[-1].usage.total_tokens > 0
    deltas = [c.choices[0].delta for c in chunks[:-1]]
    assert "".join(d.content or "" for d in deltas) == "I see."
    (call,) = [c for d in deltas for c in d.tool_calls or []]
    assert (call.index, call.function.name, json.loads(call.function.arguments)) == (0, "look", {"city": "Rome"})
    assert [c.choices[0].finish_reason for c in chunks[-3:-1]] == [None, "tool_calls"]
    told = [x.logprob for c in chunks[:-1] if c.choices[0].logprobs for x in c.choices[0].logprobs.content]
    echoed = {"role": "assistant", "content": "I see.", "tool_calls": [call.model_dump(exclude={"index"})]}
    result = {"role": "tool", "tool_call_id": call.id, "content": RESULT}
    async with client.chat.completions.stream(
        model="any",
        messages=[ASK, echoed, result],
        logprobs=False,
        extra_body={"tools": TOOLS},  # not strict ones
    ) as stream:
        text = "".join([event.delta async for event in stream if event.type == "content.delta"])
        final = await stream.get_final_completion()
    assert text == final.choices[0].message.content == ANSWER
    record = world.close(cid)
    assert told == record.calls[0].logprobs
    check_tool_episode(record)


async def test_openai_sync_streams_whole_characters(world):
    cid = world.open()
    loop, parts = asyncio.get_running_loop(), []

    def play(go_on: asyncio.Event) -> None:
        client = openai.OpenAI(base_url=world.gateway.base_url(cid), api_key="any")
        for chunk in client.chat.completions.create(model="any", messages=[PLAIN], stream=True):
            if chunk.choices[0].delta.content:
                parts.append(chunk.choices[0].delta.content)
                loop.call_soon_threadsafe(go_on.set)

    async with held(world.gateway._engine, after=3) as go_on:  # all at once would be one part
        await asyncio.to_thread(play, go_on)
    assert "".join(parts) == PLAIN_ANSWER and len(parts) > 1 and not any("\ufffd" in part for part in parts)
    assert world.close(cid).calls[0].response["content"] == PLAIN_ANSWER


async def test_openai_sync_many_turns_and_raw_responses(world):
    cid = world.open()

    def play() -> list[str]:
        client = openai.OpenAI(base_url=f"{world.gateway.url}/v1", api_key="any", default_query={"cid": cid})
        messages: list = [PLAIN]
        for _ in range(3):
            raw = client.chat.completions.with_raw_response.create(model="any", messages=messages, max_tokens=7)
            assert raw.status_code == 200 and raw.headers["content-type"] == "application/json"
            answer = raw.parse().choices[0].message
            messages += [{"role": "assistant", "content": answer.content}, {"role": "user", "content": "More"}]
        assert client.models.list().data[0].id == client.models.retrieve("any").id
        return [m["content"] for m in messages[1::2]]

    answers = await asyncio.to_thread(play)
    record = world.close(cid)
    assert [c.response["content"] for c in record.calls] == answers
    assembly = assemble(record.calls)
    assert answers[0] == PLAIN_ANSWER[:4] and record.calls[1].prefix == "clean"
    assert len(assembly.branches) == 1 and assembly.counts["clean"] + assembly.counts["realign"] == 2


async def test_legacy_functions_get_a_legacy_answer(world, async_client):
    cid = world.open()
    client = async_client(cid)
    options = {"model": "any", "functions": [TOOLS[0]["function"]]}
    first = await client.chat.completions.create(messages=[ASK], function_call="auto", **options)
    choice = first.choices[0]
    assert choice.finish_reason == "function_call" and choice.message.tool_calls is None
    assert json.loads(choice.message.function_call.arguments) == {"city": "Rome"}
    result = {"role": "function", "name": "look", "content": RESULT}
    chunks = await client.chat.completions.create(messages=[ASK, choice.message, result], stream=True, **options)
    assert "".join([c.choices[0].delta.content or "" async for c in chunks]) == ANSWER
    check_tool_episode(world.close(cid))


async def test_structured_outputs_are_dropped_and_named(world, async_client):
    from pydantic import BaseModel, ValidationError

    class Weather(BaseModel):
        city: str

    cid = world.open()
    with pytest.raises(ValidationError):  # the model's own text is no JSON: the SDK says so, the call is recorded
        await async_client(cid).chat.completions.parse(model="any", messages=[PLAIN], response_format=Weather)
    record = world.close(cid)
    assert record.forced == {"response_format": 1} and record.calls[0].response["content"] == PLAIN_ANSWER


async def test_text_completions(world, async_client):
    cid = world.open(max_tokens=6)
    client = async_client(cid)
    whole = await client.completions.create(model="any", prompt="abc", logprobs=1)
    parts = [c async for c in await client.completions.create(model="any", prompt="abc", logprobs=1, stream=True)]
    first, second = world.close(cid).calls
    assert whole.choices[0].text == first.response["content"]
    assert whole.choices[0].logprobs.token_logprobs == first.logprobs
    assert "".join(c.choices[0].text for c in parts) == second.response["content"]
    told = [p for c in parts if c.choices[0].logprobs for p in c.choices[0].logprobs.token_logprobs]
    assert told == second.logprobs
    with pytest.raises(openai.BadRequestError, match="echo is not served"):
        await async_client(world.open()).completions.create(model="any", prompt="abc", echo=True)


async def test_errors_are_the_sdks_own_and_are_not_tried_again(world, async_client, caplog):
    cid = world.open(call_limit=1)
    client = async_client(cid, max_retries=5)

    async def create(client=client, messages=(PLAIN,), **body):
        return await client.chat.completions.create(model="any", messages=list(messages), **body)

    for raised, body in (
        (openai.BadRequestError, {"n": 2}),
        (openai.BadRequestError, {"messages": [{"role": "user", "content": "x" * 1100}]}),
        (openai.BadRequestError, {"tools": [{"type": "web_search"}]}),
    ):
        with pytest.raises(raised) as error:
            await create(**body)
        assert error.value.body["message"] and error.value.code
    await create()
    with caplog.at_level(logging.INFO), pytest.raises(openai.RateLimitError, match="do not retry") as error:
        await create()
    assert error.value.code == "call_limit" and "Retrying" not in caplog.text
    codes = [e.code for e in world.close(cid).errors]
    assert codes == ["invalid_request_error", "context_length_exceeded", "invalid_request_error", "call_limit"]
    with pytest.raises(openai.NotFoundError):
        await create(async_client("nobody"))
    with pytest.raises(openai.NotFoundError, match="chat/completions, completions and models are served"):
        await async_client(cid).responses.create(model="any", input="x")


async def test_an_agent_that_stops_reading_aborts_its_call(world, async_client):
    cid = world.open(max_tokens=900, temperature=50.0)  # hot enough never to end by itself
    episode = world.gateway.ledger.find(cid)
    async with held(world.gateway._engine, after=20):
        stream = await async_client(cid).chat.completions.create(model="any", messages=[PLAIN], stream=True)
        async for chunk in stream:
            if chunk.choices[0].delta.content:
                break
        await stream.close()
        await comes(lambda: not episode.partial)
    (call,) = world.gateway.ledger.close(cid).calls
    assert call.finish_reason == "abort" and 0 < len(call.completion_token_ids) < 900


async def test_plain_httpx_plays_a_tool_episode_at_the_full_address(world):
    cid = world.open()
    async with httpx.AsyncClient(timeout=120) as http:
        messages = [ASK]
        for _ in range(2):
            answer = await http.post(world.gateway.chat_url(cid), json={"messages": messages, "tools": TOOLS})
            message = answer.json()["choices"][0]["message"]
            messages = [*messages, message]
            for call in message.get("tool_calls", ()):
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": RESULT})
    check_tool_episode(world.close(cid))


async def test_langchain_plays_a_tool_episode(world):
    import langchain_openai as langchain
    from langchain_core.messages import HumanMessage, ToolMessage

    for stream in (False, True):
        cid = world.open()
        base = langchain.ChatOpenAI(base_url=world.gateway.base_url(cid), api_key="any", model="any", streaming=stream)
        model, messages = base.bind_tools(TOOLS), [HumanMessage(ASK["content"])]
        for _ in range(2):
            message = await model.ainvoke(messages)
            messages.append(message)
            for call in message.tool_calls:
                assert (call["name"], call["args"]) == ("look", {"city": "Rome"})
                messages.append(ToolMessage(RESULT, tool_call_id=call["id"]))
        assert messages[-1].content == ANSWER
        check_tool_episode(world.close(cid))


async def test_the_agents_sdk_plays_a_tool_episode(world, async_client):
    import agents

    agents.set_tracing_disabled(True)
    function, asked = TOOLS[0]["function"], []

    async def look(context, arguments: str) -> str:
        asked.append(json.loads(arguments))
        return RESULT

    tool = agents.FunctionTool(
        function["name"], function["description"], function["parameters"], look, strict_json_schema=False
    )
    for stream in (False, True):
        cid = world.open()
        model = agents.OpenAIChatCompletionsModel("any", async_client(cid))
        agent = agents.Agent("player", model=model, tools=[tool])
        if stream:
            result = agents.Runner.run_streamed(agent, ASK["content"])
            async for _ in result.stream_events():
                pass
        else:
            result = await agents.Runner.run(agent, ASK["content"])
        assert result.final_output == ANSWER
        check_tool_episode(world.close(cid))
    assert asked == [{"city": "Rome"}] * 2
