"""The first prompt that a run recorded, given to the policy of today. The task app has no part in it."""

from __future__ import annotations

import asyncio
import secrets
import time

from rltui.model.first_prompt import Prompt
from rltui.smoke.bench import Bench
from rltui.smoke.control import Stopped
from rltui.smoke.events import RECORDED, CallSeen, EpisodeBegan, EpisodeEnded, TurnSeen
from rltui.smoke.policies.base import Call, GaveUp, Json, Policy, PolicyFailed, Reply
from rltui.smoke.report import Episode, Turn
from trainer.taskapp.codes import clean


async def ask_recorded(bench: Bench, policy: Policy, seed: int, prompt: Prompt) -> None:
    """One call, told as an episode of the stage RECORDED, which has no reward. Raises Stopped."""
    n, settings, began = next(bench.numbers), bench.settings, time.monotonic()
    cid = f"recorded-{n}-{seed}-{secrets.token_urlsafe(12)}"
    sampling = {"temperature": settings.temperature, "max_tokens": settings.max_tokens, "stop": list(settings.stop)}
    messages, tools = list(prompt.messages), list(prompt.tools)
    body: Json = {"model": policy.model or policy.name, "messages": messages, **sampling}
    call = Call(cid, 0, seed, 0, messages, tools, body | ({"tools": tools} if tools else {}))
    bench.emit(EpisodeBegan(n, seed, 0, RECORDED))
    bench.emit(CallSeen(n, prompt.messages))
    reply, error = Reply(), None
    try:
        await policy.begin(cid, sampling)
        reply = await _unless_stopped(bench, policy, call)
    except PolicyFailed as failed:
        error = f"{failed.status} {clean(str(failed))}"
    except GaveUp:
        error = "given up by hand"
    finally:
        await _end(policy, cid)
    seconds = time.monotonic() - began
    turn = Turn(prompt.messages, reply.text, reply.tool_calls, seconds, reply.completion_tokens, error)
    bench.emit(TurnSeen(n, turn))
    bench.emit(EpisodeEnded(Episode(n, seed, 0, (turn,), (), None, None, policy=policy.name, stage=RECORDED)))


async def _unless_stopped(bench: Bench, policy: Policy, call: Call) -> Reply:
    await bench.control.turn()
    answer, stop = asyncio.ensure_future(policy.reply(call)), asyncio.ensure_future(bench.control.stopped.wait())
    try:
        await asyncio.wait({answer, stop}, return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            raise Stopped
        return answer.result()
    finally:
        answer.cancel()
        stop.cancel()


async def _end(policy: Policy, cid: str) -> None:
    try:
        await policy.end(cid)
    except PolicyFailed:
        return
