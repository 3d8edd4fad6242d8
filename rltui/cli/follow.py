"""Following a run through its source until it ends, and Ctrl-C on the way.

Ctrl-C stops a run of this machine, a second one kills it; a job elsewhere goes on without the follower.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Container
from datetime import datetime
from types import FrameType
from typing import Any

from rltui.cli.output import FAILED, INTERRUPTED, OK, CliError
from rltui.cli.progress import Printer, number, step_line
from rltui.launch.base import Started
from rltui.model.doing import doing
from rltui.sources.base import TERMINAL, Json, RunSource, Unreachable, Unreadable
from rltui.text import clean
from rltui.words import duration
from trainer.taskapp.reading import finite

LOOK_S = 0.25
UNANSWERED_S = 10.0  # WIRE 5.8: a request that is not accepted by then is said to be unanswered
SETTLE_S = 1.0  # after the coordinator's end: how long its last writes may take to be seen

# Events worth a line of their own. The others show in the live line, or are answers to requests.
_TOLD = frozenset(
    {
        "rl.judge",
        "rl.eval.summary",
        "rl.checkpoint.saved",
        "rl.resumed",
        "rl.control.refused",
        "rl.pipeline.backpressure",
        "rl.pipeline.resume",
    }
)
_TERMINAL_EVENTS = frozenset(
    {"rl.train.completed", "rl.job.completed", "rl.train.failed", "rl.job.failed", "rl.job.cancelled"}
)


class Interrupts:
    """Ctrl-C, counted instead of raised from `begin` to `end`, each of which may come again.

    It begins before a run is started that a Ctrl-C is to stop: between that start and the first look at the run
    nobody else would hear of one.
    """

    def __init__(self) -> None:
        self.count = 0
        self._came = threading.Event()
        self._previous: Any = None

    def begin(self) -> None:
        if self._previous is None:
            self._previous = signal.signal(signal.SIGINT, self._on_interrupt)

    def end(self) -> None:
        if self._previous is not None:
            signal.signal(signal.SIGINT, self._previous)
            self._previous = None

    def wait(self, seconds: float) -> None:
        """Until the next one, at most so long."""
        self._came.wait(seconds)
        self._came.clear()

    def _on_interrupt(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        self._came.set()


class Follower:
    """Prints a run's progress. `steers`: Ctrl-C stops the run; else it only ends the following.

    A place that gives no answer is asked again and again; what was read until then is not read twice.
    """

    def __init__(
        self,
        source: RunSource,
        printer: Printer,
        *,
        started: Started | None = None,
        steers: bool = False,
        log_interval: int = 1,
        told: Container[str] = (),
        look_s: float = LOOK_S,
        timeout_s: float | None = None,
        heard: Interrupts | None = None,
    ) -> None:
        """`told`: codes of warnings that were printed before the start, and are not printed again. `look_s`: between
        two looks. `timeout_s`: after which the following ends (`timed_out`), and the run goes on; None: never.
        `heard`: those since the run was started."""
        self._source, self._printer, self._started = source, printer, started
        self._steers, self._log_interval, self._told = steers, max(1, log_interval), told
        self._metrics_cursor: Any = None
        self._events_cursor: Any = None
        self._row: Json = {}  # metrics of the newest step
        self._unshown: list[tuple[float, Json]] = []  # what was read, when it happened; not printed yet
        self._told_states: set[str] = set()  # before the first step, each once
        self._lost = False  # nothing answers
        self._look_s, self._timeout_s = look_s, timeout_s
        self.timed_out = False
        self._heard = heard or Interrupts()
        self._answered_interrupts = 0
        self._request: tuple[str, float] | None = None

    @property
    def interrupts(self) -> int:
        return self._heard.count

    def skip_history(self) -> None:
        """Begin with what happens from now on; only the newest step is kept, for the live line."""
        self._read_news()
        for _, row in self._unshown:
            if _is_step(row):
                self._row = row
        self._unshown.clear()

    def run(self, until: Callable[[Json], bool] = lambda status: False) -> tuple[Json, int]:
        """Follow until the run has ended, or `until(status)`. Gives the last status and the exit code.

        The status is made up from what the coordinator said last when it ended without writing one.
        """
        self._heard.begin()
        try:
            status = self._follow(until)
        except Unreadable as error:
            raise CliError(f"{self._source.place}: {error}", code=FAILED) from error
        finally:
            self._heard.end()
            self._printer.close()
        if self.interrupts:
            return status, INTERRUPTED
        return status, FAILED if self.timed_out or status.get("state") in ("failed", "cancelled") else OK

    def _follow(self, until: Callable[[Json], bool]) -> Json:
        began, ended_at = time.monotonic(), None
        status: Json | None = None
        while True:
            ended = self._started is not None and self._started.exit_code() is not None
            try:
                status = self._source.status()
                self._show(status)
                self._answers()
            except Unreachable as error:
                self._gives_no_answer(error)
            if status is not None and not self._lost and (status.get("state") in TERMINAL or until(status)):
                return status
            if ended:
                ended_at = ended_at or time.monotonic()
                if status is None or time.monotonic() - ended_at > SETTLE_S:
                    return self._without_status(status)
            if self._printer.closed and not self._steers:
                return status or {}
            if self.interrupts > self._answered_interrupts:
                if not self._steers:
                    return status or {}
                self._answered_interrupts = self.interrupts
                self._interrupt(status)
            self._watch_request()
            if self._timeout_s is not None and time.monotonic() - began > self._timeout_s:
                self.timed_out = True
                return status or {}
            self._heard.wait(self._look_s)

    def _gives_no_answer(self, error: Unreachable) -> None:
        why = clean(error, 300)
        if not self._lost:
            self._lost = True
            self._printer.keep(f"{why}; trying again")
        self._printer.rewrite(f"stale {duration(self._source.age())}: {why}")

    def _answers(self) -> None:
        if self._lost:
            self._lost = False
            self._printer.keep("it answers again")

    def _interrupt(self, status: Json | None) -> None:
        if self.interrupts == 1:
            self._printer.keep("Ctrl-C: stopping after what it does now, with a checkpoint. Again: kill it.")
            if status is None:  # too young to read requests
                if self._started is not None:
                    self._started.stop()
                return
            try:
                self._request = self._source.request("stop"), time.monotonic()
            except (OSError, ValueError) as error:
                why = getattr(error, "strerror", None) or error
                self._printer.keep(f"the request could not be written ({why}): sending a signal")
                if self._started is not None:
                    self._started.stop()
        elif self._started is not None:
            self._printer.keep("Ctrl-C again: killing the run.")
            self._request = None
            self._started.kill()

    def _watch_request(self) -> None:
        if self._request is None:
            return
        control_id, asked = self._request
        if self._source.answer(control_id) is not None:
            self._request = None
        elif time.monotonic() - asked > UNANSWERED_S:
            self._printer.keep(f"no answer for {UNANSWERED_S:.0f} s. Ctrl-C again kills the run.")
            self._request = None

    def _show(self, status: Json | None) -> None:
        self._read_news()
        news, self._unshown = self._unshown, []
        for _, line in sorted(news, key=lambda item: item[0]):
            if "type" in line:
                self._show_event(line)
            elif _is_step(line):
                self._show_step(line, status or {})
        waits = status is None or status.get("state") == "queued"
        waiting = self._started.waiting() if waits and self._started is not None else ""
        now = waiting or doing(status, time.time())
        self._printer.rewrite(f"{now}  {step_line(self._row, status or {})}" if self._row else now)
        before_training = not (status and (status.get("step") or status.get("state") in TERMINAL))
        head = now.partition(" (")[0]
        if not self._printer.live and before_training and head not in self._told_states:
            self._told_states.add(head)
            self._printer.keep(now)

    def _read_news(self) -> None:
        self._drain(self._source.events, "_events_cursor", lambda event: _seconds(event.get("created_at")))
        self._drain(self._source.metrics, "_metrics_cursor", lambda row: finite(row.get("time")) or 0.0)

    def _drain(self, read: Callable[..., Any], cursor_name: str, at: Callable[[Json], float]) -> None:
        """Cursor and rows go on together: where a later read fails, what this one gave is still to be shown."""
        more = True
        while more:
            part = read(getattr(self, cursor_name))
            self._unshown += [(at(row), row) for row in part.rows]
            setattr(self, cursor_name, part.cursor)
            more = part.more

    def _show_event(self, event: Json) -> None:
        kind = event.get("type")
        if kind in _TERMINAL_EVENTS:
            return  # the end is told once, from the status
        level = event.get("level")
        if kind == "rl.warning" and (event.get("data") or {}).get("code") in self._told:
            return
        if kind in _TOLD or level in ("warning", "error"):
            mark = f"{level}: " if level in ("warning", "error") else ""
            self._printer.keep(f"{mark}{clean(event.get('message'), 300)}")

    def _show_step(self, row: Json, status: Json) -> None:
        """A line stays for a step that closed an iteration; without a terminal also every log_interval."""
        self._row = row
        closes = "reward/mean" in row
        if closes or (not self._printer.live and row["step"] % self._log_interval == 0):
            self._printer.step(row, step_line(row, status))

    def _without_status(self, status: Json | None) -> Json:
        assert self._started is not None
        if self.interrupts:
            reason = "stopped" if self.interrupts == 1 else "killed"
            return {**(status or {}), "state": "cancelled", "end_reason": reason}
        message, hint = self._started.last_words()
        error = {"code": "process_lost", "message": message, "hint": hint}
        return {**(status or {}), "state": "failed", "end_reason": "error", "error": error}


def _seconds(iso: Any) -> float:
    try:
        return datetime.fromisoformat(iso).timestamp()
    except (TypeError, ValueError):
        return 0.0


def _is_step(row: Json) -> bool:
    """Lines of evaluations, of the machine and of checkpoints are no optimizer updates."""
    return "eval_step" not in row and any(name.startswith(("gspo/", "optim/", "reward/")) for name in row)


def ending(status: Json) -> list[str]:
    """How a run ended, in words: the state, what it reached, and on failure the cause and what to do."""
    state, reason = status.get("state"), status.get("end_reason")
    head = f"{state}" + (f" ({reason})" if reason and reason not in ("completed", "error") else "")
    totals = status.get("totals") or {}
    done = f"{number(status.get('step'), '{}')} of {number(totals.get('steps'), '{}')} steps"
    lines = [f"{head}: {done} in {duration(status.get('elapsed_s'))}" if "step" in status else head]
    evaluation = (status.get("results") or {}).get("evaluation") or {}
    first, last = (reward_of(evaluation.get(name)) for name in ("first", "last"))
    if first is not None and last is not None and state == "succeeded":
        lines.append(f"held-out reward: {first:.3f} before, {last:.3f} after")
    elif last is not None:  # cut short: there may have been one evaluation only, that before training
        lines.append(f"held-out reward: {last:.3f} when last evaluated")
    error = status.get("error")
    if error:
        lines.append(f"cause: {clean(error.get('message'), 600)}")
        if error.get("hint"):
            lines.append(f"to do: {clean(error.get('hint'), 600)}")
    return lines


def reward_of(evaluation: Any) -> float | None:
    """The mean reward of an entry of results.evaluation: a number, or an object with `reward_mean`."""
    return finite(evaluation.get("reward_mean") if isinstance(evaluation, dict) else evaluation)
