"""S13 failure paths."""

from __future__ import annotations

import asyncio

from rltui.smoke.bench import Bench
from rltui.smoke.play import play
from rltui.smoke.policies.base import Call, Policy, PolicyFailed, Reply
from rltui.smoke.probe import NoAnswer
from rltui.smoke.stages.base import Findings, Found, listed, skipped

HANG_S = 2.0  # the time limit of an episode whose model call never ends
STILL_S = 3.0  # in which the app still answers meanwhile


class _Failing(Policy):
    """Every call fails with 500."""

    name = "failing"

    async def reply(self, call: Call) -> Reply:
        raise PolicyFailed(500, "internal_error", "forced by this smoke test")


class _Hanging(Policy):
    """No call is answered before `let_go`."""

    name = "hanging"

    def __init__(self) -> None:
        self.let_go = asyncio.Event()

    async def reply(self, call: Call) -> Reply:
        await self.let_go.wait()
        raise PolicyFailed(503, "stopped", "forced by this smoke test")


async def failure_paths(bench: Bench) -> Found:
    """Secrets in answers; then a model call that fails, and one that hangs: both must come back as errors."""
    found = Findings()
    if bench.recorder.leaks:
        where = listed(sorted(set(bench.recorder.leaks)))
        found.fail(
            f"answers held a key or another secret, those to {where}", "leave secrets out of every answer and error"
        )
    if bench.verdicts.get("S07") not in ("ok", "warn"):
        return found.found("") if found.failures else skipped("no episode finishes even without a fault: see S07")
    leaks = len(bench.recorder.leaks)
    seed = bench.settings.seeds[0]
    failed = (await play(bench, seed, 0, policy=_Failing())).episode
    if failed.excluded in (None, "app_error"):
        reward = "" if failed.outcome is None else f" {failed.outcome:g}"
        found.warn(
            f"a model call failed with 500, and the app reports the reward{reward} all the same",
            "answer 502 instead: a run leaves such an episode out, and the reward is made up",
        )
    hanging, client = _Hanging(), bench.client_within(HANG_S)
    try:
        hung = (await play(bench, seed, 0, policy=hanging, client=client)).episode
        if hung.excluded in (None, "app_error"):
            found.warn(
                "a model call hung, and the app reports a reward all the same",
                "answer an error when the time of safety.max_time_s is over",
            )
        await _still_answers(bench, found)
    finally:
        hanging.let_go.set()
        await client.close()
    if len(bench.recorder.leaks) > leaks:
        where = listed(sorted(set(bench.recorder.leaks[leaks:])))
        found.fail(f"error answers held a key or another secret, those to {where}", "leave secrets out of every answer")
    return found.found(f"a failed call is {failed.excluded}, a hanging one {hung.excluded}; neither is a reward")


async def _still_answers(bench: Bench, found: Findings) -> None:
    try:
        answer = await bench.probe.get("/health", bench.keys, limit_s=STILL_S)
        status = str(answer.status)
    except NoAnswer as error:
        status = str(error)
    if status != "200":
        found.fail(
            f"while a model call hangs, GET /health gets: {status}",
            "do not block the event loop: await model calls, or make the handler a plain function in a thread",
        )
