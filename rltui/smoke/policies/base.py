"""Who answers a task app's model calls in a smoke test."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Call:
    """One model call as it arrived. body: the whole request, messages and tools included."""

    cid: str
    number: int  # in its episode, from 0
    seed: int
    member: int
    messages: list[Json]
    tools: list[Json]
    body: Json


@dataclass(frozen=True, slots=True)
class Reply:
    """What is answered. message: the whole of it where the policy is itself an endpoint, sent on as it came."""

    text: str = ""
    tool_calls: tuple[Json, ...] = ()
    finish_reason: str | None = None  # None: by whether there are tool calls
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    message: Json | None = None


@dataclass(frozen=True, slots=True)
class Tokens:
    """What an engine recorded of one episode; see `own`."""

    calls: int
    counts: dict[str, int]  # clean, realign, fork, drift
    forced: tuple[str, ...]
    logprobs: bool
    prompt_tokens: int | None
    completion_tokens: int | None
    broken: str | None = None  # why training could not use the tokens


class PolicyUnavailable(Exception):
    """The policy cannot be used at all: no key, no model, no process. message and hint are for a person."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(f"{message}. {hint}" if hint else message)
        self.message, self.hint = message, hint


class PolicyFailed(Exception):
    """One call gets this error instead of an answer."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code


class GaveUp(Exception):
    """The person ends the episode."""


class Policy(ABC):
    """Answers calls, several at once. `name` stands beside each episode; `plays_by_hand`: its time means nothing."""

    name: str
    model: str | None = None
    plays_by_hand = False

    async def start(self) -> None:  # noqa: B027 - most need none of the three
        """Gets ready. Raises PolicyUnavailable."""

    async def close(self) -> None:  # noqa: B027
        """Ends what `start` began; repeatable."""

    async def begin(self, cid: str, sampling: Json) -> None:  # noqa: B027
        """An episode begins, to be sampled so where the policy can."""

    @abstractmethod
    async def reply(self, call: Call) -> Reply:
        """The answer to one call. Raises PolicyFailed or GaveUp."""

    async def end(self, cid: str) -> Tokens | None:
        """An episode has ended; what an engine recorded of it, if there is one."""
        return None


def functions_of(tools: list[Json]) -> list[Json]:
    """The functions that a request offers, in order: `{name, description?, parameters?}`."""
    found = [tool.get("function") for tool in tools if isinstance(tool, dict)]
    return [f for f in found if isinstance(f, dict) and isinstance(f.get("name"), str)]


def tool_call(name: str, arguments: str, number: int, index: int = 0) -> Json:
    """A tool call as OpenAI writes it. arguments: JSON text."""
    return {"id": f"call_{number}_{index}", "type": "function", "function": {"name": name, "arguments": arguments}}
