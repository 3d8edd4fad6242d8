"""Runs the stages in order and tells what happens; can be paused, stepped and stopped from outside."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Collection, Coroutine
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self

from rltui.model.first_prompt import Prompt
from rltui.smoke.bench import Bench
from rltui.smoke.control import Control, Stopped
from rltui.smoke.events import PLAYED, Done, Event, StageBegan, StageEnded
from rltui.smoke.play import play
from rltui.smoke.policies.base import Policy
from rltui.smoke.recorded import ask_recorded
from rltui.smoke.report import Report, Stage
from rltui.smoke.settings import PERSON_TIMEOUT_S, Settings
from rltui.smoke.stages.base import Check, Found, skipped
from rltui.smoke.stages.table import CHECKS
from rltui.smoke.target import Target, TargetRefused
from rltui.smoke.traces import TraceStore
from rltui.smoke.verdict import verdict_of
from trainer.taskapp.errors import TaskAppError

PLAY_NEEDS = ("S01", "S02", "S05")  # stages without which no episode can be asked for


class Runner:
    """One smoke test. Use it as a context manager; within, `run` may be called again for single stages.

    Entering raises TargetRefused (no such app, port taken), PolicyUnavailable, TracesUnwritable.
    """

    def __init__(self, settings: Settings, policy: Policy) -> None:
        self.settings = settings
        self._queue: asyncio.Queue[Event | None] = asyncio.Queue()
        target = Target(settings.app, port=settings.app_port, env_file=settings.app_env_file, force=settings.app_force)
        self.bench = Bench(settings, policy, target, lambda event: self._queue.put_nowait(event))
        self.stages: dict[str, Stage] = {}

    @property
    def control(self) -> Control:
        """pause(), resume(), step() and stop()."""
        return self.bench.control

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            await self.bench.close()
            raise
        return self

    async def _start(self) -> None:
        try:
            await self.bench.server.start()
        except OSError as error:
            port = self.settings.policy_port
            raise TargetRefused(f"smoke.mock_port = {port} cannot be used: {error.strerror}", "Set 0 for any") from None
        await self.bench.policy.start()
        if self.settings.trace_db is not None:
            self.bench.traces = TraceStore(self.settings.trace_db, self.bench.target.app, self.bench.policy)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.bench.close()

    def run(self, only: Collection[str] | None = None) -> AsyncIterator[Event]:
        """All stages, or those with these ids again. The last event is Done.

        Raises TargetRefused: the port of an app that is to be served is taken.
        """
        return self._told(self._work([check for check in CHECKS if only is None or check.id in only]))

    def play(self, seed: int, policy: Policy | None = None) -> AsyncIterator[Event]:
        """One episode more, which counts in no stage; first the stages that it needs, where they have not passed.
        The last event is Done. policy: another one than the test's."""
        return self._told(self._play(seed, policy or self.bench.policy))

    def ask(self, seed: int, prompt: Prompt) -> AsyncIterator[Event]:
        """The policy's answer to the first prompt that a run recorded of this seed."""
        return self._told(self._ask(seed, prompt))

    async def _ask(self, seed: int, prompt: Prompt) -> None:
        with contextlib.suppress(Stopped):
            await ask_recorded(self.bench, self.bench.policy, seed, prompt)

    async def _told(self, working: Coroutine[Any, Any, None]) -> AsyncIterator[Event]:
        """What happens while `working` runs."""
        self._queue = asyncio.Queue()
        work = asyncio.create_task(working)
        work.add_done_callback(lambda _: self._queue.put_nowait(None))
        try:
            while (event := await self._queue.get()) is not None:
                yield event
            work.result()
        finally:
            work.cancel()
            with contextlib.suppress(asyncio.CancelledError, TargetRefused):
                await work

    async def _work(self, checks: list[Check]) -> None:
        for check in checks:
            if self.control.stopped.is_set():
                break
            await self._do(check)
        self._queue.put_nowait(Done(self.report()))

    async def _play(self, seed: int, policy: Policy) -> None:
        for check in CHECKS:
            if check.id in PLAY_NEEDS and self.bench.verdicts.get(check.id) not in ("ok", "warn"):
                await self._do(check)
        if self.bench.verdicts.get("S02") in ("ok", "warn"):
            self.bench.stage = PLAYED
            patient = self.bench.client_within(PERSON_TIMEOUT_S) if policy.plays_by_hand else None
            with contextlib.suppress(Stopped):
                try:
                    await play(self.bench, seed, 0, policy=policy, client=patient)
                finally:
                    if patient is not None:
                        await patient.close()
        self._queue.put_nowait(Done(self.report()))

    async def _do(self, check: Check) -> None:
        self._queue.put_nowait(StageBegan(check.id, check.title, check.limit_s))
        stage = self.stages[check.id] = await self._stage(check)
        self.bench.verdicts[check.id] = stage.verdict
        self._queue.put_nowait(StageEnded(stage))

    async def _stage(self, check: Check) -> Stage:
        self.bench.stage = check.id
        self.bench.recorder.take()
        began = time.monotonic()
        found = await self._found(check)
        mask = self.bench.recorder.masked
        return Stage(
            id=check.id,
            title=check.title,
            verdict=found.verdict,
            seconds=time.monotonic() - began,
            message=mask(found.message),
            fix=mask(found.fix),
            exchanges=self.bench.recorder.take(),
            notes=tuple(mask(note) for note in found.notes),
        )

    async def _found(self, check: Check) -> Found:
        missing = [need for need in check.needs if self.bench.verdicts.get(need) not in ("ok", "warn")]
        if missing:
            return skipped(f"needs {', '.join(missing)}")
        try:
            async with asyncio.timeout(check.limit_s):
                return await check.run(self.bench)
        except TimeoutError:
            return Found("fail", f"took longer than {check.limit_s:g} s", "find out what delays the app")
        except Stopped:
            return skipped("stopped")
        except RecursionError:
            return Found("fail", "an answer of the app is nested too deeply to be read", "make it flatter")
        except TaskAppError as error:  # of the client: an address or a key that cannot be used
            return Found("fail", error.message, error.hint)

    def report(self) -> Report:
        """Of what is done by now."""
        bench = self.bench
        stages = tuple(self.stages[check.id] for check in CHECKS if check.id in self.stages)
        interrupted = self.control.stopped.is_set()
        verdict, text = verdict_of(stages, bench.episodes, interrupted)
        return Report(
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            config_hash=self.settings.config_hash,
            app=bench.recorder.masked_json(bench.app),
            target=bench.recorder.masked(self.settings.app),
            policy=bench.policy.name,
            model=bench.policy.model,
            stages=stages,
            episodes=tuple(bench.episodes),
            spread=bench.spread,
            forecast=bench.forecast,
            verdict=verdict,
            verdict_text=text,
            interrupted=interrupted,
        )
