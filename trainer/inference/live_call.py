"""One running call: chunks of the engine become the record of WIRE 2.4."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import asdict
from typing import Any

from trainer.inference.engine import Chunk, ContextOverflow, Engine, EngineError, Reply, Sampling
from trainer.inference.joining import Prompt
from trainer.inference.ledger import Episode
from trainer.inference.openai import assistant_message
from trainer.inference.stopping import cut_at_stop
from trainer.inference.tool_parsers import THINK
from trainer.rollout.types import Call, Span
from trainer.steady import steady

Json = dict[str, Any]

TAIL = 8  # tokens of a prompt in which an opening tag of thinking would stand


def new_call(
    episode: Episode,
    prompt: Prompt,
    sampling: Sampling,
    *,
    messages: list[Json],
    tools: list[Json] | None,
    forced: Json,
    model_asked: Any,
    template_kwargs: Json,
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
    if template_kwargs:
        recorded["chat_template_kwargs"] = template_kwargs
    call = Call(
        cid=episode.cid,
        call=episode.started,
        prompt_token_ids=prompt.ids,
        completion_token_ids=[],
        logprobs=[],
        spans=[],
        finish_reason="",
        sampling=recorded,
        messages=messages,
        response={},
        tools=tools,
        forced=forced,
        prefix=prompt.kind,
        drift=prompt.drift,
        repeat_of=next((c.call for c in episode.record.calls if c.prompt_token_ids == prompt.ids), None),
        t_queued=t_queued,
        engine=engine,
    )
    episode.started += 1
    return call


class LiveCall:
    """Runs a call in a task of its own, so that a client that leaves, or the end of the episode, can abort it.

    A text completion (`chat` false) has neither thinking nor tool calls: all that was sampled is its text."""

    def __init__(self, engine: Engine, episode: Episode, call: Call, sampling: Sampling, *, chat: bool) -> None:
        self.call = call
        self.error: EngineError | None = None
        self.reply: Reply | None = None  # what the client reads, once all is sampled
        # the template may have opened the block of thinking, which the completion then only closes
        self.thinking = chat and engine.decode(call.prompt_token_ids[-TAIL:]).rstrip().endswith(THINK)
        self._chat, self._engine, self._episode, self._sampling = chat, engine, episode, sampling
        self._record = episode.record  # closing an episode puts another one in its place
        self._news = asyncio.Event()
        self.task = asyncio.create_task(self._run())
        self.task.add_done_callback(self._close)  # not a finally: a task can be cancelled before it begins
        episode.cancel[call.call], episode.partial[call.call] = self.task.cancel, call

    async def progress(self) -> bool:
        """Waits for more tokens; False once the call is over."""
        if not self.task.done():
            await self._news.wait()
            self._news.clear()
        return not self.task.done()

    async def _run(self) -> None:
        call = self.call
        call.t_start = steady()
        last: Chunk | None = None
        try:
            async with aclosing(
                self._engine.generate(call.prompt_token_ids, self._sampling, affinity=call.cid)
            ) as stream:
                async for chunk in stream:
                    self._add(last := chunk)
                    self._news.set()
            if last is None or last.finish_reason is None:
                raise EngineError("the engine ended the answer without a reason; see its log")
            if last.spans is not None:  # an engine that keeps account itself knows better than the order of arrival
                call.spans = [Span(*span) for span in last.spans]
            self.reply = await self._derender(last.stop_detail)
            call.response, call.stop_detail = assistant_message(self.reply), last.stop_detail
            call.finish_reason = "tool_calls" if self.reply.tool_calls else last.finish_reason
        except EngineError as error:
            self._fail(error)

    async def _derender(self, stop: str | None) -> Reply:
        ids = self.call.completion_token_ids
        reply = await self._engine.derender(ids, self.call.tools) if self._chat else Reply(self._engine.decode(ids))
        if self.thinking and reply.reasoning is None and not reply.tool_calls:  # cut off while it thought
            reply.reasoning, reply.text = reply.text, ""
        reply.text = cut_at_stop(reply.text, stop)
        reply.reasoning = reply.reasoning and cut_at_stop(reply.reasoning, stop)
        return reply

    def _add(self, chunk: Chunk) -> None:
        call = self.call
        start, end = len(call.completion_token_ids), len(call.completion_token_ids) + len(chunk.token_ids)
        if not start:
            call.t_first = steady()
        call.completion_token_ids += chunk.token_ids
        call.logprobs += chunk.logprobs
        if call.spans and call.spans[-1].weight_version == chunk.weight_version:
            call.spans[-1].end = end
        elif end > start:
            call.spans.append(Span(start, end, chunk.weight_version))

    def _fail(self, error: EngineError) -> None:
        self.error, self.call.finish_reason = error, "error"
        if isinstance(error, ContextOverflow):
            self._episode.fail("context_length_exceeded", 400, self.call.call, str(error))
        else:
            self._episode.fail("engine_error", 503, self.call.call, str(error))

    def _close(self, task: asyncio.Task[None]) -> None:
        call = self.call
        if not task.cancelled() and (unforeseen := task.exception()) is not None:
            self._fail(EngineError(f"the call failed in the gateway: {unforeseen!r}"))
        self._episode.cancel.pop(call.call, None)
        if self._episode.partial.pop(call.call, None) is call:  # else the ledger has it already, as aborted
            call.finish_reason = call.finish_reason or "abort"
            call.t_end = steady()
            call.held_s = self._engine.held_s(call.t_start or call.t_end, call.t_end, call.cid)
            self._record.calls.append(call)
        self._news.set()
