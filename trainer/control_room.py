"""Carries out what viewers ask of a running run: between two steps, each request answered by events (WIRE 5.8)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

from trainer.config import ConfigError, Loaded, RunConfig
from trainer.config.differ import live_keys
from trainer.errors import RunError
from trainer.learner.client import LearnerError, LearnerProcess
from trainer.recorder import Recorder
from trainer.rundir.control import REFUSALS, ControlBox, Request
from trainer.rundir.disk import DiskFull
from trainer.rundir.patient import PatientWriter
from trainer.waiting import within

T = TypeVar("T")

LOOK_S = 10.0  # between two looks at a full disk
LEARNERS_OWN = ("training.learning_rate", "training.clip_eps_low", "training.clip_eps_high", "training.kl_coef")
AT_ITERATION_END = ("evaluate", "checkpoint")


class NoRoom(RunError):
    """The run was asked to stop while it waited for room on a full disk: what it waited with is left out."""


Change = Callable[[Mapping[str, Any]], Loaded]  # the whole config with these values; ConfigError
End = Callable[[str, dict[str, Any] | None], None]


class ControlRoom:
    """`take` sorts requests as they come; `run` carries them out; the pipeline asks before it begins anything.

    The run is paused as long as there is a reason for it. Then no step and no episode begins; what runs goes on.
    """

    def __init__(
        self,
        loaded: Loaded,
        recorder: Recorder,
        writer: PatientWriter,
        change: Change,
        end: End,
    ) -> None:
        """`change` makes a config of other values, `end` stops or kills the run."""
        self._loaded, self._recorder, self._writer, self._change, self._end = loaded, recorder, writer, change, end
        self._learner: LearnerProcess | None = None
        self.live: dict[str, Any] = {}  # values set in this attempt, by key: a resume keeps them
        self.box = ControlBox(writer.paths.root, attempt=writer.attempt)
        self._todo: asyncio.Queue[Request] = asyncio.Queue()
        self._open_requests: list[Request] = []  # accepted, neither done nor refused
        self._reasons: dict[str, dict[str, Any]] = {}  # why the run is paused -> {reason, by, since}
        self._gate, self._between = asyncio.Event(), asyncio.Event()
        self._gate.set()
        self._between.set()
        self._changing = False
        self._news = asyncio.Event()  # the gate has moved, or a checkpoint is asked for
        self._ended = asyncio.Event()  # a stop was asked
        self._phase = "training"  # to go back to
        self._callbacks: list[Callable[[], None]] = []
        self._short = 0  # works that wait for room on a disk
        self._next_look = 0.0

    # --- what the pipeline asks -----------------------------------------------------------------------------

    @property
    def config(self) -> RunConfig:
        """As it is now: live keys change."""
        return self._loaded.config

    @property
    def admitting(self) -> bool:
        """Whether an episode may begin."""
        return not self._reasons

    def on_change(self, callback: Callable[[], None]) -> None:
        """`callback` is called when `admitting` or a live key has changed."""
        self._callbacks.append(callback)

    @asynccontextmanager
    async def step(self) -> AsyncIterator[None]:
        """Around an optimizer update and its sync: it does not begin while the run is paused."""
        while not self._gate.is_set():
            await self._gate.wait()
        self._between.clear()
        try:
            yield
        finally:
            self._between.set()

    async def iteration_ended(self, save: Callable[[], Awaitable[None]]) -> None:
        """Before what follows an iteration: evaluation, checkpoint, the next one. It waits while the run is paused, and
        makes a checkpoint when one is asked for then."""
        while not self._gate.is_set():
            self._news.clear()
            if self.saves_in_pause:
                await save()
            else:
                await self._news.wait()

    @property
    def saves_in_pause(self) -> bool:
        """Whether a checkpoint is asked for while the run is paused; one of no step there is none."""
        return set(self._reasons) == {"request"} and self._recorder.step > 0 and self.wants("checkpoint")

    def wants(self, action: str) -> bool:
        """Whether somebody asked for evaluate or checkpoint, which wait for their iteration's end."""
        return any(request.action == action for request in self._open_requests)

    def done(self, action: str, **data: Any) -> None:
        """The answer to those who asked for it."""
        for request in [r for r in self._open_requests if r.action == action]:
            self._answer(request, "done", f"{action} is done", iteration=self._recorder.iteration, **data)

    async def with_room(self, make: Callable[[], Awaitable[T]]) -> T:
        """What `make` gives. On a full disk the run pauses, and it is made again every 10 s until there is room.

        Raises:
            NoRoom: the run was asked to stop, and a last try found none either.
        """
        async with self._room_wanted() as wait:
            while True:
                try:
                    return await make()
                except (LearnerError, RunError) as error:
                    if error.code != "disk_full":
                        raise
                except DiskFull:
                    pass
                await wait()

    async def wait_for_room(self, there_is: Callable[[], bool]) -> None:
        """Returns when `there_is` room; until then the run is paused (`disk_full`). NoRoom: as `with_room`."""
        async with self._room_wanted() as wait:
            while not there_is():
                await wait()

    @asynccontextmanager
    async def _room_wanted(self) -> AsyncIterator[Callable[[], Awaitable[None]]]:
        """Gives what to await between two tries. The pause begins with the first one and ends with the block."""
        waits = 0

        async def wait() -> None:
            nonlocal waits
            if self._ended.is_set():
                raise NoRoom("disk_full", "the run was stopped on a full disk")
            if waits == 0:
                self._short += 1
                self._pause("disk_full", None)
            waits += 1
            while await within(LOOK_S, self._ended.wait()) is None:
                if not self._writer.disk_full:
                    return

        try:
            yield wait
        finally:
            if waits:
                self._short -= 1
                self._look_at_disk()

    # --- what viewers ask -----------------------------------------------------------------------------------

    def look(self) -> None:
        """Twice a second: new requests, the disk, and whether a paused run still says so."""
        for request in self.box.take():
            self._take(request)
        self._look_at_disk()
        document = self._writer.document
        if self._reasons and not self._ended.is_set() and (document.state, document.phase) != ("paused", "paused"):
            self._phase = document.phase if document.phase != "paused" else "training"
            self._tell_paused()

    def _take(self, request: Request) -> None:
        reason, why = (request.refusal, "") if request.refusal else self._refusal(request)
        if reason is not None:
            self._refuse(request, reason, why)
            return
        self._open_requests.append(request)
        self._tell(request, "accepted", f"{request.action} was asked")
        if request.action in ("stop", "kill"):
            self._end(request.action, request.by)
        elif request.action == "pause":
            self._pause("request", request.by)  # nothing begins from now on
            self._todo.put_nowait(request)
        elif request.action not in AT_ITERATION_END:
            self._todo.put_nowait(request)
        elif self._reasons:
            self._tell_news()

    def _refusal(self, request: Request) -> tuple[str | None, str]:
        """Why it cannot be carried out, as a reason of the wire and in words."""
        match request.action:
            case "pause" if "request" in self._reasons:
                return "wrong_state", "the run is paused already"
            case "resume" if "request" not in self._reasons:
                goes_on = "; it goes on by itself when there is room on the disk" if self._reasons else ""
                return "wrong_state", f"nobody paused the run{goes_on}"
            case "evaluate" if self.config.evaluation is None:
                return "wrong_state", "the config has no [evaluation]"
            case "evaluate" if self._reasons:
                return "wrong_state", "the run is paused; resume it first"
            case "checkpoint" if "disk_full" in self._reasons:
                return "wrong_state", "the disk is full"
            case "pause" | "evaluate" | "checkpoint" if self._ended.is_set():
                return "wrong_state", "the run is stopping"
            case "set" if not request.args:
                return "invalid", "no key is given"
            case "set" if others := sorted(set(request.args) - set(live_keys())):
                may = f"these can: {', '.join(live_keys())}"
                return "not_live", f"{', '.join(others)} cannot be changed while a run is going; {may}"
        return None, ""

    def begin(self, loaded: Loaded, learner: LearnerProcess) -> None:
        """Once the services are up: the config as the model completed it, and the learner."""
        self._loaded, self._learner = loaded, learner

    async def run(self) -> None:
        """From `begin` on. Carries requests out, one after the other, between two steps. Never returns."""
        while True:
            request = await self._todo.get()
            match request.action:
                case "pause":
                    await self._between.wait()
                    self._answer(request, "done", "the run is paused")
                case "resume":
                    self._go_on("request")
                    self._answer(request, "done", "the run goes on")
                case "set":
                    await self._set(request)

    async def _set(self, request: Request) -> None:
        """All of its values, or none."""
        self._changing = True
        self._set_gate()
        try:
            await self._between.wait()
            try:
                changed = self._change(self.live | request.args)
                if problems := changed.launch_problems():
                    raise ConfigError(problems)
                old, new = _values(self._loaded, request.args), _values(changed, request.args)
                if self._learner is not None and (own := {_name(k): v for k, v in new.items() if k in LEARNERS_OWN}):
                    await self._learner.set(own)
            except (ConfigError, LearnerError) as error:
                self._refuse(request, "invalid", str(error))
                return
            self._loaded = changed
            self.live |= request.args
            told = ", ".join(f"{key} = {new[key]} (was {old[key]})" for key in new)
            self._answer(request, "done", f"from step {self._recorder.step + 1} on: {told}", old=old, new=new)
        finally:
            self._changing = False
            self._set_gate()

    # --- pauses ---------------------------------------------------------------------------------------------

    def ending(self) -> None:
        """The run was asked to stop: what it still has to do may be done, so no pause holds it back any more. On a full
        disk its records wait in memory."""
        self._ended.set()
        self._reasons.pop("request", None)
        self._set_gate()

    def close(self) -> None:
        """At the end of the attempt no request stays without an answer."""
        for request in list(self._open_requests):
            if request.action in ("stop", "kill"):
                self._answer(request, "done", f"{request.action} is done")
            else:
                self._refuse(request, "wrong_state", "the run has ended")
        for request in self.box.take():
            if request.action in ("stop", "kill") and request.refusal is None:  # it ends, or was ended by a signal
                self._answer(request, "done", "the run has ended")
            else:
                self._refuse(request, request.refusal or "wrong_state", "the run has ended")

    def _pause(self, reason: str, by: Any) -> None:
        if reason in self._reasons:
            return
        if not self._reasons:
            self._phase = self._writer.document.phase
        self._reasons[reason] = {"reason": reason, "by": by, "since": time.time()}
        self._set_gate()
        self._tell_paused()
        self._recorder.event("rl.phase", f"paused: {reason}", phase="paused", reason=reason)

    def _tell_paused(self) -> None:
        *_, newest = self._reasons.values()
        if not self._ended.is_set():
            self._recorder.status(state="paused", phase="paused", paused=newest)
        else:
            self._recorder.status(paused=newest)

    def _go_on(self, reason: str) -> None:
        if self._reasons.pop(reason, None) is None:
            return
        self._set_gate()
        if self._reasons:
            self._tell_paused()
            return
        if self._ended.is_set():
            self._recorder.status(paused=None)
            return
        self._recorder.status(state="running", phase=self._phase, paused=None)
        self._recorder.event("rl.phase", self._phase, phase=self._phase)

    def _look_at_disk(self) -> None:
        now = time.monotonic()
        if self._writer.disk_full:
            if "disk_full" not in self._reasons:
                self._next_look = now + LOOK_S
                self._pause("disk_full", None)
            elif now >= self._next_look:
                self._next_look = now + LOOK_S
                self._writer.recover()
        if not self._writer.disk_full and not self._writer.waiting and not self._short:
            self._go_on("disk_full")

    def _set_gate(self) -> None:
        if self._changing or (self._reasons and not self._ended.is_set()):
            self._gate.clear()
        else:
            self._gate.set()
        self._tell_news()

    def _tell_news(self) -> None:
        self._news.set()
        for callback in self._callbacks:
            callback()

    # --- answers --------------------------------------------------------------------------------------------

    def _answer(self, request: Request, answer: str, text: str, **data: Any) -> None:
        self._tell(request, answer, text, **data)
        with suppress(ValueError):
            self._open_requests.remove(request)
        self.box.finish(request)

    def _refuse(self, request: Request, reason: str, why: str = "") -> None:
        words = why or REFUSALS.get(reason, reason)
        self._answer(request, "refused", f"{request.action or 'the request'} was refused: {words}", reason=reason)

    def _tell(self, request: Request, answer: str, text: str, **data: Any) -> None:
        about = {"control_id": request.control_id, "action": request.action, "by": request.by}
        level = "warning" if answer == "refused" else "info"
        self._recorder.event(f"rl.control.{answer}", text, level=level, **about, **data)


def _values(loaded: Loaded, keys: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key in keys:
        value: Any = loaded.values
        for part in key.split("."):
            value = value[part] if isinstance(value, dict) and part in value else None
        found[key] = value
    return found


def _name(key: str) -> str:
    return key.rpartition(".")[2]
