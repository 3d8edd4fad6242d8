"""One running call: chunks of the engine become the record of WIRE 2.4."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from dataclasses import asdict
from typing import Any

from trainer.inference.engine import Chunk, Engine, EngineError, Sampling
from trainer.inference.ledger import Episode
from trainer.inference.openai import assistant_message
from trainer.inference.stopping import cut_at_stop
from trainer.rollout.types import Call, Span

Json = dict[str, Any]


def new_call(
    episode: Episode,
    prompt: list[int],
    sampling: Sampling,
    *,
    messages: list[Json],
    tools: list[Json] | None,
    forced: Json,
    prefix: str,
    model_asked: Any,
    t_queued: float,
    engine: str,
) -> Call:
    """The next call of the episode, without a completion yet."""
    fields = asdict(sampling)
    recorded = {name: fields[name] for name in ("temperature", "max_tokens", "stop", "seed")}
    if episode.policy.split == "eval":
        recorded |= {name: fields[name] for name in ("top_p", "top_k", "repetition_penalty")}
    if isinstance(model_asked, str):
        recorded["model"] = model_asked[:200]
    call = Call(
        cid=episode.cid,
        call=episode.started,
        prompt_token_ids=prompt,
        completion_token_ids=[],
        logprobs=[],
        spans=[],
        finish_reason="",
        sampling=recorded,
        messages=messages,
        response={},
        tools=tools,
        forced=forced,
        prefix=prefix,
        repeat_of=next((c.call for c in episode.record.calls if c.prompt_token_ids == prompt), None),
        t_queued=t_queued,
        engine=engine,
    )
    episode.started += 1
    return call


class LiveCall:
    """Runs a call in a task of its own, so that a client that leaves, or the end of the episode, can abort it."""

    def __init__(self, engine: Engine, episode: Episode, call: Call, sampling: Sampling) -> None:
        self.call = call
        self.error: EngineError | None = None
        self._engine, self._episode, self._sampling = engine, episode, sampling
        self._record = episode.record  # closing an episode puts another one in its place
        self._news = asyncio.Event()
        self.task = asyncio.create_task(self._run())
        self.task.add_done_callback(self._close)  # not a finally: a task can be cancelled before it begins
        episode.cancel[call.call], episode.partial[call.call] = self.task.cancel, call

    async def progress(self) -> bool:
        """Waits for more tokens; False once the call is over."""
        if self.task.done():
            return False
        await self._news.wait()
        self._news.clear()
        return not self.task.done()

    async def _run(self) -> None:
        call = self.call
        call.t_start = time.time()
        detail = finish = None
        try:
            async with aclosing(self._engine.generate(call.prompt_token_ids, self._sampling)) as stream:
                async for chunk in stream:
                    self._add(chunk)
                    finish, detail = chunk.finish_reason, chunk.stop_detail
                    self._news.set()
            reply = await self._engine.derender(call.completion_token_ids, call.tools)
            reply.text = cut_at_stop(reply.text, detail)
            call.response, call.stop_detail = assistant_message(reply), detail
            call.finish_reason = "tool_calls" if reply.tool_calls else finish or "abort"
        except EngineError as error:
            self._fail(error)

    def _add(self, chunk: Chunk) -> None:
        call = self.call
        start, end = len(call.completion_token_ids), len(call.completion_token_ids) + len(chunk.token_ids)
        if not start:
            call.t_first = time.time()
        call.completion_token_ids += chunk.token_ids
        call.logprobs += chunk.logprobs
        if call.spans and call.spans[-1].weight_version == chunk.weight_version:
            call.spans[-1].end = end
        elif end > start:
            call.spans.append(Span(start, end, chunk.weight_version))

    def _fail(self, error: EngineError) -> None:
        self.error, self.call.finish_reason = error, "error"
        self._episode.fail("engine_error", 503, self.call.call, str(error))

    def _close(self, task: asyncio.Task[None]) -> None:
        call = self.call
        if not task.cancelled() and (unforeseen := task.exception()) is not None:
            self._fail(EngineError(f"the call failed in the gateway: {unforeseen!r}"))
        self._episode.cancel.pop(call.call, None)
        if self._episode.partial.pop(call.call, None) is call:  # else the ledger has it already, as aborted
            call.finish_reason = call.finish_reason or "abort"
            call.t_end = time.time()
            self._record.calls.append(call)
        self._news.set()
