"""Requests to the gateway through its real ASGI app, with an engine that refuses nothing."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Sequence
from typing import Any, Literal

import httpx
import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.effort import examples, within
from tests.fuzz.mutate import mutated, to_json, torn, values
from trainer.inference.engine import Chunk, Engine, Reply, Sampling
from trainer.inference.gateway import Gateway
from trainer.inference.ledger import CallPolicy
from trainer.inference.tool_parsers import Hermes, split_reasoning
from trainer.rollout.trajectories import assemble

CID, END = "job-1-2-3-0-abcdef", 1
CONTEXT = 4_096


class Bytes(Engine):
    """A token is a byte of a fixed answer; holds what it is asked for against what an engine may be given."""

    kind, model_name, max_model_len, weight_version = "script", "m", CONTEXT, 0
    eos_token_ids, reasoning, tool_markers = frozenset([END]), True, Hermes.markers
    said = b'<think>hm</think><tool_call>{"name": "f", "arguments": {"x": 1}}</tool_call>\x01'

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def load_weights(self, path: Any, version: int) -> None: ...

    async def render(self, messages: Any, tools: Any = None, template_kwargs: Any = None) -> list[int]:
        msgspec.json.encode([tools, template_kwargs])
        return list("".join(f"{m['role']}:{m.get('content')}\x01" for m in messages).encode() + b"assistant:")

    async def tokenize(self, text: str) -> list[int]:
        return list(text.encode())

    async def generate(
        self, prompt_ids: Sequence[int], sampling: Sampling, *, affinity: str | None = None
    ) -> AsyncIterator[Chunk]:
        check_sampling(sampling)
        assert 0 < len(prompt_ids) and len(prompt_ids) + sampling.max_tokens <= CONTEXT
        sent = list(self.said)[: sampling.max_tokens]
        for token in sent[:-1]:
            yield Chunk([token], [-1.0], 0)
        yield Chunk(sent[-1:], [-1.0], 0, "stop" if sent[-1] == END else "length")

    def decode(self, token_ids: Sequence[int]) -> str:
        return bytes(i for i in token_ids if i != END).decode(errors="replace")

    async def derender(self, token_ids: Sequence[int], tools: Any = None) -> Reply:
        reasoning, text = split_reasoning(self.decode(token_ids))
        text, calls = Hermes().parse(text) if tools else (text, [])
        return Reply(text, reasoning, calls)


def check_sampling(sampling: Sampling) -> None:
    """What any engine can take: finite floats, counts of 32 bits, whole texts."""
    assert all(map(math.isfinite, (sampling.temperature, sampling.top_p, sampling.repetition_penalty)))
    assert sampling.temperature >= 0 and 0 < sampling.top_p <= 1 and sampling.repetition_penalty > 0
    assert type(sampling.max_tokens) is int and type(sampling.top_k) is int and type(sampling.seed) is int
    assert 0 < sampling.max_tokens <= 64 and -1 <= sampling.top_k < 1 << 31 and 0 <= sampling.seed < 1 << 63
    assert all(stop and isinstance(stop, str) and stop.encode() for stop in sampling.stop)


TOOL = {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}}
CALLED = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
CHAT = {
    "model": "m",
    "messages": [
        {"role": "system", "content": "s"},
        {"role": "user", "content": [{"type": "text", "text": "q"}]},
        {"role": "assistant", "content": None, "tool_calls": [CALLED], "reasoning_content": "hm"},
        {"role": "tool", "tool_call_id": "c1", "content": "r"},
    ],
    "tools": [TOOL],
    "tool_choice": "auto",
    "temperature": 0.7,
    "top_p": 0.9,
    "top_k": 5,
    "repetition_penalty": 1.1,
    "max_tokens": 90,
    "stop": ["x"],
    "n": 1,
    "seed": 7,
    "logprobs": True,
    "top_logprobs": 2,
    "stream": False,
    "stream_options": {"include_usage": True},
    "chat_template_kwargs": {"enable_thinking": False},
    "logit_bias": {"1": 2},
    "response_format": {"type": "text"},
}
LEGACY = {**CHAT, "tools": None, "functions": [TOOL["function"]], "function_call": "auto"}
TEXT = {"prompt": "q", "max_tokens": 3, "logprobs": 1, "stop": "x", "temperature": 0, "seed": 1}
ODD = [CHAT["messages"], [], [TOOL], "none", "required", {"include_usage": 1}, {"messages": []}, {"tokenize": False}]

bodies = st.one_of(
    st.sampled_from([CHAT, CHAT, LEGACY]).flatmap(lambda body: mutated(body, 4, ODD)).map(to_json),
    mutated({**CHAT, "stream": True}, 3, ODD).map(to_json),
    st.dictionaries(st.sampled_from(sorted(CHAT)), values, max_size=3).map(lambda more: to_json({**CHAT, **more})),
    mutated(TEXT, 3).map(to_json),
    torn(to_json(CHAT)),
)
paths = st.one_of(
    st.just(f"/v1/chat/completions?cid={CID}"),
    st.sampled_from(
        [
            f"/cid/{CID}/v1/chat/completions",
            f"/v1/completions?cid={CID}",
            f"/v1/?cid={CID}/v1/chat/completions",
            f"/v1/chat/completions/chat/completions?cid={CID}",
            "/v1/chat/completions",
            "/v1/chat/completions?cid=other",
            f"/v1/models?cid={CID}",
        ]
    ),
    torn(f"/v1/chat/completions?cid={CID}".encode(), 2).map(lambda raw: "/" + raw.decode("latin-1").lstrip("/")),
)


async def asked(requests: list[tuple[str, str, bytes]], split: Literal["train", "eval"]) -> None:
    gateway = Gateway(Bytes())
    policy = CallPolicy(split, 1.0, 64, call_limit=4, seed_parts=(1, 2))
    gateway.ledger.open(CID, policy)
    episode = gateway.ledger.find(CID)
    assert not isinstance(episode, str)
    transport = httpx.ASGITransport(gateway.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://h") as http:
        for method, path, body in requests:
            before = len(episode.record.calls)
            try:
                answer = await asyncio.wait_for(http.request(method, path, content=body), 20)
            except httpx.InvalidURL:
                continue
            check(answer, method, len(episode.record.calls) - before)
    assert episode.started == len(episode.record.calls) <= 4 and not episode.partial
    record = gateway.ledger.close(CID)
    if record.calls:
        assemble(record.calls)


def check(answer: httpx.Response, method: str, recorded: int) -> None:
    assert answer.status_code == 200 or 400 <= answer.status_code < 500, answer.text
    if method == "HEAD":
        assert recorded == 0
    elif answer.status_code != 200:
        assert recorded == 0
        error = answer.json()["error"]
        assert error["code"] and error["message"] and error["type"] == "invalid_request_error"
    elif answer.headers["content-type"].startswith("text/event-stream"):
        assert recorded == 1 and answer.text.endswith("data: [DONE]\n\n")
        for line in filter(None, answer.text.splitlines()[:-2]):
            chunk = msgspec.json.decode(line.removeprefix("data: "))
            assert "error" not in chunk
    elif "choices" in (document := msgspec.json.decode(answer.content)):
        assert recorded == 1 and document["usage"]["completion_tokens"] > 0


@examples(70)
@given(
    requests=st.lists(
        st.tuples(st.sampled_from(["POST"] * 9 + ["GET", "HEAD", "PUT"]), paths, bodies), min_size=1, max_size=6
    ),
    split=st.sampled_from(["train", "eval"]),
)
def test_a_request_is_served_or_refused_and_costs_nothing_then(
    requests: list[tuple[str, str, bytes]], split: Literal["train", "eval"]
) -> None:
    with within(60):
        asyncio.run(asked(requests, split))
