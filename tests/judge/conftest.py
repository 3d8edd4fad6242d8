"""Judges against a real HTTP server whose answers the test scripts, in time that only a judge's waits make pass."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest_asyncio

from tests.taskapp.conftest import http, raw_server
from trainer.config.schema import JudgeConfig
from trainer.judge.choose import make_judge
from trainer.judge.judge import Judge
from trainer.judge.lookup import resolve_rubric
from trainer.judge.types import JudgedEpisode, JudgedTurn
from trainer.rundir.records import JudgeRecord

Json = dict[str, Any]
CRITERIA = [
    {"id": "fact.correct", "weight": 1.0, "scale": "binary", "description": "1 if the answer is right."},
    {"id": "style.kind", "weight": 3.0, "description": "Kindness."},
    {"id": "style.brief", "weight": 1.0, "description": "Brevity."},
]
GOOD = {"c1": {"reason": "right", "score": 1}, "c2": {"reason": "curt", "score": 0.5}, "c3": {"score": 0.1}}
GOOD_TOTAL = (1 + (0.5 * 3 + 0.1) / 4) / 2


class Time:
    """A clock that moves when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@dataclass
class Server:
    """Answers are taken from `script` in turn, the last one again and again: bytes, or made of the request's body."""

    url: str = ""
    script: list[bytes | Callable[[Json], bytes | Awaitable[bytes]]] = field(default_factory=list)
    bodies: list[Json] = field(default_factory=list)
    heads: list[str] = field(default_factory=list)

    def reply(self, request: bytes, number: int) -> bytes | Awaitable[bytes]:
        head, _, body = request.partition(b"\r\n\r\n")
        self.heads.append(head.decode().lower())
        self.bodies.append(json.loads(body))
        answer = self.script[min(number, len(self.script) - 1)]
        return answer(self.bodies[-1]) if callable(answer) else answer


@pytest_asyncio.fixture
async def server() -> AsyncIterator[Server]:
    scripted = Server()
    async with raw_server(scripted.reply) as url:
        scripted.url = url
        yield scripted


@dataclass
class Bench:
    """A judge, its records, and its time."""

    judge: Judge
    records: list[JudgeRecord]
    time: Time


def bench(options: Json | None = None, *, overrides: Json | None = None, **given: Any) -> Bench:
    """A judge of [judge.options] `options` whose rubric is `overrides`, by default CRITERIA for the outcome."""
    settings = {
        "rubric_overrides": {"outcome": {"criteria": CRITERIA}} if overrides is None else overrides,
        **(options or {}),
    }
    top = {name: given.pop(name) for name in ("type", "timeout_s", "event_aggregation") if name in given}
    config = JudgeConfig.model_validate({"enabled": True, "options": settings, **top})
    resolved = resolve_rubric(config.options, folder=None, service=given.get("judge_url") is not None)
    records: list[JudgeRecord] = []
    time = Time()

    def record(line: JudgeRecord) -> int:
        records.append(line)
        return len(records)

    given = {"environ": {}, "sleep": time.sleep, "clock": time, **given}
    return Bench(make_judge(config, resolved, record=record, **given), records, time)


def local(server: Server, options: Json | None = None, **given: Any) -> Bench:
    """A judge at the scripted server, by judge.options.base_url."""
    return bench({"base_url": f"{server.url}/v1", "model": "m", **(options or {})}, **given)


def chat(answer: Any, finish_reason: str = "stop", **usage: Any) -> bytes:
    """A chat completion that says `answer` (JSON of it, unless it is text)."""
    text = answer if isinstance(answer, str) else json.dumps(answer)
    message = {"role": "assistant", "content": text}
    used = {"prompt_tokens": 100, "completion_tokens": 20, **usage}
    return http(200, json.dumps({"choices": [{"message": message, "finish_reason": finish_reason}], "usage": used}))


def refusal(status: int, message: str, *headers: str) -> bytes:
    return http(status, json.dumps({"error": {"message": message}}), *headers)


def episode(*answers: str, env_reward: float | None = 1.0, **fields: Any) -> JudgedEpisode:
    """A turn for each answer."""
    turns = [
        JudgedTurn(
            t=number,
            messages=[{"role": "user", "text": f"question {number}"}, {"role": "assistant", "text": answer}],
            reward=float(number),
        )
        for number, answer in enumerate(answers or ("Paris.",))
    ]
    return JudgedEpisode(cid="cid-1", turns=turns, env_reward=env_reward, iteration=2, step=4, seed=7, **fields)
