"""One episode through the task app contract, as a run would play it. It never raises for what an app does."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

from rltui.smoke.bench import Bench, Played
from rltui.smoke.causes import ANSWER_FIX, DIED_FIX, GIVEN_UP, LOG_FIX, invalid_answer, log_end
from rltui.smoke.control import Stopped
from rltui.smoke.events import CallSeen, EpisodeBegan, EpisodeEnded, TurnSeen
from rltui.smoke.policies.base import GaveUp, Policy, PolicyFailed, Tokens
from rltui.smoke.policy_server import Book
from rltui.smoke.report import Episode, Turn
from rltui.smoke.rewards import resolved
from trainer.rewards.episode import EpisodeReward
from trainer.taskapp.bodies import Answer
from trainer.taskapp.client import TaskAppClient
from trainer.taskapp.codes import clean
from trainer.taskapp.contracts import rollout_request
from trainer.taskapp.errors import RolloutFailure, TaskAppError, TaskAppRejected
from trainer.taskapp.parse import ParsedRollout, check_against_calls
from trainer.taskapp.reading import Json, listing, mapping

LIMITS = ("context_length_exceeded", "call_limit")  # an episode that meets one ends, cut but scored
POLICY_FAULTS = ("engine_error", "policy_unreachable", "policy_error", "policy_bad_answer")
LOG_LOOKS, LOOK_S = 100, 0.02
STOP_S = 30.0  # that the current call is given to end once it was asked to stop


async def play(
    bench: Bench, seed: int, member: int, *, policy: Policy | None = None, client: TaskAppClient | None = None
) -> Played:
    """One try of one episode. Raises Stopped, and nothing else."""
    bench.control.check()
    policy, client = policy or bench.policy, client or bench.client
    n = next(bench.numbers)
    cid = f"smoke-{n}-{seed}-{member}-{secrets.token_urlsafe(12)}"
    bench.emit(EpisodeBegan(n, seed, member, bench.stage))
    limit = 4 * bench.settings.max_turns

    def told(turn: Turn) -> None:
        bench.emit(TurnSeen(n, _masked(bench, turn)))

    def asked(tail: tuple[Json, ...]) -> None:
        bench.emit(CallSeen(n, tuple(bench.recorder.masked_json(message) for message in tail)))

    book = Book(cid, seed, member, policy, limit, told, asked)
    strays, stale = len(bench.server.strays), len(bench.server.stale)
    bench.server.open(book)
    printed = bench.target.lines
    began = time.monotonic()
    try:
        parsed, scored, excluded, sentence = await _outcome(bench, book, client, policy)
    finally:
        seconds = time.monotonic() - began
        bench.server.close(cid)
    bench.control.check()
    answer = bench.recorder.answers.pop(cid, None)
    tokens = await _tokens(policy, cid)
    late = [*bench.server.strays[strays:], *([] if book.arrivals else bench.server.stale[stale:])]
    fault = next((arrival for arrival in book.arrivals if arrival.error in POLICY_FAULTS), None)
    if excluded is not None and fault is not None:  # not the app's
        excluded, sentence = "engine_error", f"the policy failed: {fault.message}"
    elif excluded in ("no_recorded_call", "no_steps") and late:
        excluded, sentence = (
            "no_recorded_call",
            f"the app called {late[0].url} instead of the address that it was given",
        )
    elif excluded == "http_error" and late and not book.arrivals:
        sentence += f"; it had called {late[0].url} instead of the address that it was given"
    elif excluded == "bad_json" and answer is not None:
        sentence = _why_no_json(answer, sentence)
    fix: str | None = None
    if excluded == "http_error" and answer is None and (status := await bench.target.died_within(0.5)) is not None:
        sentence, fix = f"{sentence}; the app has ended with status {status}", DIED_FIX
    elif excluded == "http_error" and answer is not None and invalid_answer(answer.json_or_none()):
        fix = ANSWER_FIX
    log = await _log(bench, 0 if fix == DIED_FIX else printed) if excluded == "http_error" else ()
    if log and fix is None:
        fix = LOG_FIX
    episode = Episode(
        n=n,
        seed=seed,
        member=member,
        turns=tuple(_masked(bench, turn) for turn in book.turns),
        step_rewards=() if scored is None else scored.steps,
        outcome=None if parsed is None else parsed.outcome,
        R=None if scored is None else scored.total,
        excluded=excluded,
        sentence=bench.recorder.masked(sentence),
        warnings=(*(parsed.warnings if parsed is not None else ()), *(scored.warnings if scored is not None else ())),
        seconds=seconds,
        policy_seconds=sum(turn.seconds for turn in book.turns),
        prompt_tokens=_sum(book, tokens, "prompt_tokens"),
        completion_tokens=_sum(book, tokens, "completion_tokens"),
        policy=policy.name,
        stage=bench.stage,
        trace=_summary(parsed) if bench.settings.return_trace and parsed is not None else None,
    )
    if bench.traces is not None:
        trace = None if parsed is None else bench.recorder.masked_json(parsed.trace)
        bench.traces.add(episode, cid, None if trace is None else json.dumps(trace))
    bench.emit(EpisodeEnded(episode))
    size = None if answer is None else len(answer.body)
    kind = None if answer is None else answer.headers.get("content-type", "")
    return Played(episode, cid, parsed, book.arrivals, late, tokens, size, kind, fix, log)


async def _log(bench: Bench, printed: int) -> tuple[str, ...]:
    """What the app we serve has printed since; its last lines may still be on their way."""
    for _ in range(LOG_LOOKS):  # not seconds: a busy machine may take them between two
        if bench.target.log_over or bench.target.lines != printed:
            break
        await asyncio.sleep(LOOK_S)
    return log_end(bench.target.log_since(printed))


def _why_no_json(answer: Answer, sentence: str) -> str:
    kind = clean(answer.headers.get("content-type", ""), 60)
    return sentence if "json" in kind or answer.too_large else f"{sentence}; its content type is {kind or 'not given'}"


async def _outcome(
    bench: Bench, book: Book, client: TaskAppClient, policy: Policy
) -> tuple[ParsedRollout | None, EpisodeReward | None, str | None, str]:
    """(what was read, what it earned, exclusion code, its sentence)."""
    settings = bench.settings
    sampling = {"temperature": settings.temperature, "max_tokens": settings.max_tokens, "stop": list(settings.stop)}
    parsed: ParsedRollout | None = None
    try:
        await policy.begin(book.cid, sampling)
        parsed = await _unless_over(bench, book, client.rollout(request_body(bench, book, client.timeout_s)))
        calls = sum(arrival.status == 200 for arrival in book.arrivals)
        check_against_calls(
            parsed,
            calls=calls,
            failed=[(i, a.status) for i, a in enumerate(book.arrivals) if a.status != 200 and a.error not in LIMITS],
            max_turns=settings.max_turns,
        )
        return parsed, resolved(parsed, calls, settings.rewards), None, ""
    except RolloutFailure as failure:
        return parsed, None, failure.code, str(failure)
    except TaskAppRejected as error:
        return None, None, error.reason, f"{error.message}. {error.hint}"
    except TaskAppError as error:
        return None, None, "http_error", error.message
    except PolicyFailed as error:
        return None, None, "engine_error", str(error)
    except GaveUp:
        return None, None, GIVEN_UP, "given up by hand"


async def _unless_over(bench: Bench, book: Book, rollout: Coroutine[Any, Any, ParsedRollout]) -> ParsedRollout:
    """The rollout's answer; given up when the person does, and when all is to stop, after the current call."""
    task = asyncio.ensure_future(rollout)
    ends = [asyncio.ensure_future(event.wait()) for event in (book.over, bench.control.stopped)]
    try:
        first: set[asyncio.Future[Any]] = {task, *ends}
        await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
        if bench.control.stopped.is_set():
            deadline = time.monotonic() + (0 if book.policy.plays_by_hand else STOP_S)
            while book.busy and not task.done() and time.monotonic() < deadline:  # noqa: ASYNC110 - another thread counts
                await asyncio.sleep(0.05)
            raise Stopped
        if task.done() and not book.gave_up:
            return task.result()
        raise GaveUp
    finally:
        for waiting in (task, *ends):
            waiting.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # seen, also where it no longer matters


def request_body(bench: Bench, book: Book, timeout_s: float) -> Json:
    settings = bench.settings
    return rollout_request(
        cid=book.cid,
        inference_url=bench.server.chat_url(book.cid),
        inference_base_url=bench.server.base_url(book.cid),
        env_name=bench.env_name or "default",
        env_config=settings.env_config,
        policy_name=settings.policy_name,
        policy_config=settings.policy_config,
        seed=book.seed,
        max_turns=settings.max_turns,
        split=settings.split,
        model=book.policy.model or book.policy.name,
        temperature=settings.temperature,
        top_p=1.0,
        max_tokens=settings.max_tokens,
        stop=settings.stop,
        ops=settings.ops,
        on_done=settings.on_done,
        timeout_s=timeout_s,
        judge_on=settings.return_trace,
    )


async def _tokens(policy: Policy, cid: str) -> Tokens | None:
    try:
        return await policy.end(cid)
    except PolicyFailed:
        return None


def _sum(book: Book, tokens: Tokens | None, name: str) -> int | None:
    """Over the calls; None where one of them was not counted."""
    if tokens is not None:
        counted: int | None = getattr(tokens, name)
        return counted
    counts = [getattr(a.reply, name) for a in book.arrivals if a.reply is not None]
    return sum(counts) if counts and None not in counts else None


def _masked(bench: Bench, turn: Turn) -> Turn:
    """What the app wrote may hold a key."""
    mask = bench.recorder.masked
    messages = tuple(bench.recorder.masked_json(message) for message in turn.messages_tail)
    calls = tuple(bench.recorder.masked_json(call) for call in turn.tool_calls)
    error = turn.error and mask(turn.error)
    return replace(turn, messages_tail=messages, reply=mask(turn.reply), tool_calls=calls, error=error)


def _summary(parsed: ParsedRollout) -> str:
    if parsed.trace is None:
        return "no trace in the answer"
    events, steps = listing(parsed.trace.get("event_history")), listing(parsed.trace.get("session_time_steps"))
    kinds: dict[str, int] = {}
    for event in events:
        kind = str(mapping(event).get("event_type") or "event")[:40]
        kinds[kind] = kinds.get(kind, 0) + 1
    found = ", ".join(f"{kind} x {number}" for kind, number in list(kinds.items())[:8])
    return f"{len(events)} events ({found or 'none'}), {len(steps)} time steps"
