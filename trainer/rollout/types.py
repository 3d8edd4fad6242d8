"""The records that travel between gateway, dispatcher, learner and run directory."""

from __future__ import annotations

from typing import Any

import msgspec

Json = dict[str, Any]


class Span(msgspec.Struct):
    """Completion tokens [start, end) that one weight version sampled."""

    start: int
    end: int
    weight_version: int


class Call(msgspec.Struct):
    """One model call, exactly as the engine read and wrote it (WIRE 2.4)."""

    cid: str
    call: int
    prompt_token_ids: list[int]
    completion_token_ids: list[int]
    logprobs: list[float]
    spans: list[Span]
    finish_reason: str  # stop, length, tool_calls, abort, error
    sampling: Json
    messages: list[Json]
    response: Json
    tools: list[Json] | None = None
    forced: Json = {}
    stop_detail: str | None = None
    prefix: str = "first"  # first, clean, realign, fork
    drift: int = 0  # tokens of the call before that the chat template would have written otherwise (realign)
    repeat_of: int | None = None
    t_queued: float = 0.0  # all four of `steady`
    t_start: float = 0.0
    t_first: float = 0.0
    t_end: float = 0.0
    held_s: float = 0.0  # of it, while an update of weights held it
    engine: str = "local"


class Branch(msgspec.Struct):
    """One training sequence of an episode (WIRE 2.5). The lists have one entry a token, equal lengths."""

    ids: list[int]
    mask: list[int]  # 1 on tokens the policy sampled
    turn: list[int]
    logp: list[float]  # behaviour log-probability where mask is 1, else 0
    spans: list[Span]  # over positions of this sequence
    weight: float  # 1 / branches of the episode
    first_turn: int
    calls: list[int]  # indices of the calls it holds
    prefix: list[str]  # first, clean, realign, fork: one a call
