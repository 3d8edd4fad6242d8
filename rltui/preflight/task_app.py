"""The task app's contract, by the first stages of the smoke test: health, info, task info, one mock episode."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace

from rltui.preflight.base import Context, Found, Verdict, skipped
from rltui.text import clean
from trainer.taskapp.errors import TaskAppError

STAGES = {"S01", "S02", "S04", "S05", "S07", "S08"}
LIMIT_S = 90.0
EPISODE_S = 60.0  # of the one mock episode, where the config would wait longer
POLL_S = 0.2


def contract(context: Context) -> Found:
    """Blocks until it is done, or the context is stopped; what it had started is gone by then."""
    assert context.loaded is not None
    other = context.cfg.services.task_url != (context.cfg.smoke.task_url or context.cfg.services.task_url)
    notes = ["smoke.task_url names another app; this is services.task_url"] if other else []
    with _exported(context.loaded.env_file):
        found = asyncio.run(_stopped_early(context))
    return Found(found.verdict, found.message, found.fix, found.key, found.tried, (*found.notes, *notes))


@contextlib.contextmanager
def _exported(variables: Mapping[str, str]) -> Iterator[None]:
    """The app's key may stand in the file of env_file_path; the smoke test reads the environment."""
    new = {name: value for name, value in variables.items() if name not in os.environ}
    os.environ.update(new)
    try:
        yield
    finally:
        for name in new:
            os.environ.pop(name, None)


async def _stopped_early(context: Context) -> Found:
    work = asyncio.ensure_future(_contract(context))
    try:
        while not work.done():
            await asyncio.wait([work], timeout=POLL_S)
            if context.stopped.is_set():
                return skipped("stopped")
        return work.result()
    finally:
        work.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await work


async def _contract(context: Context) -> Found:
    from rltui.smoke.policies.mock import MockPolicy
    from rltui.smoke.runner import Runner
    from rltui.smoke.settings import settings_of
    from rltui.smoke.target import TargetRefused

    assert context.loaded is not None
    url, key = context.cfg.services.task_url, "services.task_url"
    settings = settings_of(
        context.loaded, url=url, policy="mock", group_size=1, rollouts=1, folder=str(context.config.parent)
    )
    settings = replace(settings, seeds=settings.seeds[:1], timeout_s=min(settings.timeout_s, EPISODE_S))
    settings = replace(settings, trace_db=None, return_trace=False, policy_port=0)
    tried = f"{url}: health, info, task info, one episode with random answers"
    try:
        async with Runner(settings, MockPolicy()) as runner:
            async for _ in runner.run(STAGES):
                pass
            stages = runner.report().stages
    except TargetRefused as error:
        return Found("fail", clean(error.message, 400), error.hint, key, tried)
    except TaskAppError as error:
        return Found("fail", clean(error.message, 400), error.hint, key, tried)
    notes = tuple(f"{s.id} {s.title}: {s.verdict}, {clean(s.message, 200)}" for s in stages if s.verdict != "skipped")
    worst: tuple[Verdict, ...] = ("fail", "warn")
    for verdict in worst:
        bad = [stage for stage in stages if stage.verdict == verdict]
        if bad:
            text = f"{bad[0].title}: {clean(bad[0].message, 300)}"
            return Found(verdict, text, clean(bad[0].fix, 300), key, tried, notes)
    last = next((clean(stage.message, 120) for stage in stages if stage.id == "S07"), "")
    return Found("ok", f"it answers, and played one mock episode: {last}", tried=tried, notes=notes)
