"""A smoke test in a thread of its own, with a loop of its own: whoever looks at it never waits for it.

One session is one task app and one policy. It does one job after the other (all stages, some again, one episode) and
stays ready in between; `close` ends all that was started.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import AsyncIterator, Callable

from rltui.model.first_prompt import Prompt
from rltui.smoke.asked import Asked
from rltui.smoke.control import Control
from rltui.smoke.events import Asks, Began, EpisodeEnded, Event, Failed, Idle, Opened, Told
from rltui.smoke.policies.base import Call, PolicyUnavailable
from rltui.smoke.policies.choose import make_policy
from rltui.smoke.policies.person import GIVE_UP, PersonPolicy
from rltui.smoke.preparing import prepared
from rltui.smoke.runner import Runner
from rltui.smoke.target import TargetRefused
from rltui.smoke.traces import TracesUnwritable
from trainer.config import ConfigError

END_S = 20.0  # that `close` waits: the app and the policy are given some seconds each


Job = Callable[[Runner], AsyncIterator[Event]]


class Session:
    """`post` is called in the session's thread with all that happens, in order; it must not block."""

    def __init__(self, asked: Asked, post: Callable[[Told], object]) -> None:
        self.asked = asked
        self._post = post
        self._loop = asyncio.new_event_loop()
        self._jobs: asyncio.Queue[tuple[str, Job]] = asyncio.Queue()
        self._control: Control | None = None
        self._typed: asyncio.Future[str] | None = None
        self._ended = threading.Event()
        self._main: asyncio.Task[None] | None = None
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="smoke", daemon=True)

    def begin(self) -> None:
        """Start the thread. Jobs may be given before."""
        self._thread.start()

    # From the other thread

    def run(self, only: set[str] | None = None) -> None:
        """All stages, or those again."""
        self._call(lambda: self._jobs.put_nowait(("stages" if only else "all", lambda runner: runner.run(only))))

    def play(self, seed: int, *, by_hand: bool = False) -> None:
        """One episode, played by the session's policy or by a person."""
        policy = PersonPolicy(self._ask) if by_hand else None
        self._call(lambda: self._jobs.put_nowait(("episode", lambda runner: runner.play(seed, policy))))

    def ask(self, seed: int, prompt: Prompt) -> None:
        """The policy's answer to a recorded first prompt."""
        self._call(lambda: self._jobs.put_nowait(("prompt", lambda runner: runner.ask(seed, prompt))))

    def answer(self, line: str) -> None:
        """What the person who is asked has typed."""
        self._call(lambda: self._answer(line))

    def pause(self) -> None:
        self._with_control(Control.pause)

    def resume(self) -> None:
        self._with_control(Control.resume)

    def step(self) -> None:
        self._with_control(Control.step)

    def stop(self) -> None:
        """End the job after the current call; before the first job, the session."""
        self._call(self._stop)

    @property
    def alive(self) -> bool:
        return not self._ended.is_set()

    def close(self) -> None:
        """End all that was started; returns when it has ended, or after END_S. Repeatable."""
        self._closing = True
        self._call(self._cancel)
        self._thread.join(END_S)

    # In the thread

    def _call(self, job: Callable[[], object]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: it has ended
            self._loop.call_soon_threadsafe(job)

    def _with_control(self, do: Callable[[Control], None]) -> None:
        def told() -> None:
            if self._control is not None:
                do(self._control)

        self._call(told)

    def _stop(self) -> None:
        if self._control is not None:
            self._control.stop()
        else:
            self._cancel()

    def _cancel(self) -> None:
        self._closing = True
        main, self._main = self._main, None  # a second time would cut the end short
        if main is not None:
            main.cancel()

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner, contextlib.suppress(asyncio.CancelledError):
                runner.run(self._serve())
        finally:
            self._ended.set()

    async def _serve(self) -> None:
        self._main = asyncio.current_task()
        if self._closing:
            return
        variables: tuple[str, ...] = ()
        try:
            ready = prepared(self.asked)
            variables = ready.variables
            self._post(Opened(ready.settings))
            policy = make_policy(ready.settings, environ=os.environ, ask=self._ask, own_arguments=ready.own)
            async with Runner(ready.settings, policy) as runner:
                self._control = runner.control
                await self._work(runner)
        except asyncio.CancelledError:
            self._post(Failed("stopped before it was ready" if self._control is None else "stopped"))
        except ConfigError as error:
            self._post(Failed(_wrong(error, str(self.asked.config))))
        except (PolicyUnavailable, TargetRefused, ValueError) as error:
            self._post(Failed(str(error)))
        except TracesUnwritable as error:
            self._post(Failed(f"the traces cannot be written to {error}; change smoke.sqld_db_path"))
        except Exception as error:  # a fault of ours ends the test, never the interface
            self._post(Failed(f"the smoke test broke: {type(error).__name__}: {error}"))
        finally:
            for name in variables:  # another config's app must not be given the keys of this one
                os.environ.pop(name, None)

    async def _work(self, runner: Runner) -> None:
        while True:
            what, job = await self._jobs.get()
            runner.control.stopped.clear()
            self._post(Began(what))
            async for event in job(runner):
                if isinstance(event, EpisodeEnded):
                    self._answer(GIVE_UP)  # a call that is still asked about is nobody's any more
                self._post(event)
            self._answer(GIVE_UP)
            runner.control.resume()
            self._post(Idle(runner.bench.target.url))

    async def _ask(self, call: Call, problem: str | None) -> str:
        self._typed = self._loop.create_future()
        self._post(Asks(call, problem))
        try:
            return await self._typed
        finally:
            self._typed = None
            self._post(Asks(None))

    def _answer(self, line: str) -> None:
        if self._typed is not None and not self._typed.done():
            self._typed.set_result(line)


def _wrong(error: ConfigError, name: str) -> str:
    first, *more = error.problems
    where = f"{first.place.file}:{first.place.line}" if first.place.line else first.place.file
    rest = f" ({len(more)} more)" if more else ""
    return f"{where}: {first.key}{': ' if first.key else ''}{first.why}{rest}. `rltui validate {name}` has each fix"
