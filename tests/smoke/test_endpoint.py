"""An OpenAI-compatible endpoint that the test scripts, as the policy of a real app."""

import json

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Route

from rltui.smoke.policies.base import Call, PolicyFailed, PolicyUnavailable
from rltui.smoke.policies.endpoint import EndpointPolicy
from tests.smoke.conftest import smoke, stage
from tests.smoke.tool_app import TOOL
from tests.taskapp.conftest import serving

SECRET = "endpoint-secret-0123456789"


class Endpoint:
    def __init__(self) -> None:
        self.seen: list[tuple[dict, dict]] = []  # (headers, body)
        self.statuses: list[int] = []

    async def chat(self, request: Request):
        self.seen.append((dict(request.headers), await request.json()))
        status = self.statuses.pop(0) if self.statuses else 200
        if status != 200:
            return PlainTextResponse(f"no: {SECRET}", status)
        arguments = json.dumps({"colour": "red", "times": 1})
        call = {"id": "1", "type": "function", "function": {"name": "press", "arguments": arguments}}
        message = {"role": "assistant", "content": None, "tool_calls": [call], "refusal": None}
        usage = {"prompt_tokens": 11, "completion_tokens": 5}
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
        return JSONResponse({"choices": [choice], "usage": usage})

    async def models(self, request: Request):
        return JSONResponse({"data": [{"id": "red-presser"}, {"id": "other"}]})


@pytest.fixture
def endpoint():
    made = Endpoint()
    routes = [Route("/v1/chat/completions", made.chat, methods=["POST"]), Route("/v1/models", made.models)]
    with serving(Starlette(routes=routes)) as url:
        made.url = url
        yield made


def policy(url: str, **more) -> EndpointPolicy:
    return EndpointPolicy(url, **{"model": None, "environ": {"SMOKE_API_KEY": SECRET}, "max_tokens": 64, **more})


async def test_it_plays_with_its_first_model_and_counts_tokens(endpoint) -> None:
    stages = {"S01", "S02", "S07", "S08", "S09"}
    report, _ = await smoke("tests/smoke/tool_app.py", policy(endpoint.url), stages)
    assert (report.model, report.policy) == ("red-presser", "red-presser")
    assert any(note.startswith("4 of 4 episodes finished") for note in stage(report, "S09").notes)
    rewards = {episode.seed: episode.R for episode in report.episodes}
    assert rewards == {0: 1.0, 1: 0.0}
    assert {(e.prompt_tokens, e.completion_tokens) for e in report.episodes} == {(11, 5)}
    headers, body = endpoint.seen[0]
    assert headers["authorization"] == f"Bearer {SECRET}"
    assert body["model"] == "red-presser" and body["tools"] == [TOOL] and body["max_tokens"] == 512
    assert SECRET not in repr(report)


async def test_its_failure_is_not_the_apps(endpoint) -> None:
    endpoint.statuses = [401]
    report, _ = await smoke("tests/smoke/tool_app.py", policy(endpoint.url), {"S01", "S02", "S07"})
    found = stage(report, "S07")
    assert found.verdict == "fail" and "answered 401: check SMOKE_API_KEY" in found.message
    assert found.notes[0].startswith("counted as error/engine_error")


def call(**body) -> Call:
    messages = [{"role": "user", "content": "x"}]
    return Call("c", 0, 0, 0, messages, [], {"messages": messages, **body})


async def test_what_passes_is_tried_again_and_what_does_not_is_said(endpoint) -> None:
    made = policy(endpoint.url + "/v1", model="m")
    endpoint.statuses = [503]
    assert (await made.reply(call())).completion_tokens == 5
    endpoint.statuses = [401]
    with pytest.raises(PolicyFailed, match="answered 401: check SMOKE_API_KEY"):
        await made.reply(call())
    endpoint.statuses = [400]
    with pytest.raises(PolicyFailed) as caught:
        await made.reply(call())
    assert SECRET not in str(caught.value) and "***" in str(caught.value)
    await made.close()


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ("openai", "OPENAI_API_KEY"),
        ("gpt-5-nano", "OPENAI_API_KEY"),
        ("https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    ],
)
def test_a_missing_key_is_an_error_that_names_it(spec: str, name: str) -> None:
    with pytest.raises(PolicyUnavailable, match=f"{name} is not set"):
        policy(spec)


def test_a_key_of_one_vendor_goes_nowhere_else() -> None:
    made = policy("https://example.com/v1", environ={"OPENAI_API_KEY": SECRET, "GROQ_API_KEY": SECRET})
    assert "Authorization" not in made._headers()
