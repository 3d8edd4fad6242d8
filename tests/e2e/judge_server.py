"""An OpenAI-compatible judge whose answers the test scripts; it keeps what it was asked."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.taskapp.conftest import serving

CRITERIA = [
    {"id": "fact.correct", "scale": "binary", "description": "1 if it is right."},
    {"id": "style.kind", "description": "Kindness."},
]
RUBRIC = json.dumps({"outcome": {"criteria": CRITERIA}}).replace(":", " =").replace('"', "'")


def chat(text: str) -> Response:
    usage = {"prompt_tokens": 100, "completion_tokens": 10}
    choice = {"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return JSONResponse({"choices": [choice], "usage": usage})


def scores(correct: float, kind: float) -> str:
    return json.dumps({"c1": {"reason": "r", "score": correct}, "c2": {"reason": "r", "score": kind}})


class ScriptedJudge:
    """`answer(place, times)`: what the `times`-th request (from 1) of the `place`-th distinct body (from 0) gets."""

    def __init__(self, answer: Callable[[int, int], Response] = lambda place, times: chat(scores(1, 0.5))) -> None:
        self.answer = answer
        self.bodies: list[dict] = []
        self.headers: list[dict] = []
        self._times: dict[str, int] = {}
        self.url = ""

    async def _chat(self, request: Request) -> Response:
        body = await request.json()
        self.bodies.append(body)
        self.headers.append(dict(request.headers))
        text = json.dumps(body, sort_keys=True)
        self._times[text] = self._times.get(text, 0) + 1
        return self.answer(list(self._times).index(text), self._times[text])

    @contextmanager
    def serving(self, around: Callable[[Starlette], Any] = lambda app: app) -> Iterator[ScriptedJudge]:
        """`around` may put an ASGI layer before it."""
        app = Starlette(routes=[Route("/v1/chat/completions", self._chat, methods=["POST"])])
        with serving(around(app)) as url:
            self.url = f"{url}/v1"
            yield self

    @property
    def sets(self) -> tuple[str, ...]:
        """Settings of a run that is judged by it."""
        return (
            "judge.enabled=true",
            f"judge.options.base_url={self.url}",
            "judge.options.model=small",
            f"judge.options.rubric_overrides={RUBRIC}",
        )
