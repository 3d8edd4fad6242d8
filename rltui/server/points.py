"""Metrics as points, ordered by step, a whole step at a time (WIRE 3.7)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from rltui.server import params
from rltui.server.reading import OpenRun, answered
from rltui.sources.base import Json, Unreadable
from trainer.rundir.jsonl import iso
from trainer.rundir.lines import Cursor, read_lines, seek_line
from trainer.rundir.reader import RunReader
from trainer.rundir.resume import Resumed

FILE = "metrics.jsonl"
MAX_POINTS = 5_000
MAX_SCANNED = 500_000  # values looked at for one answer
READ_BYTES = 256 << 10
BIGGEST = 1 << 53
# The SDK's names beside ours, with the same values.
ALIASES = {
    "gspo/loss": ("train.loss", "train.policy_loss"),
    "ppo/value_loss": ("train.value_loss",),
    "reward/mean": ("train.reward_mean",),
    "eval/reward_mean": ("eval.reward_mean",),
    "eval/reward_std": ("eval.reward_std",),
}
_ROLLOUT = frozenset({"reward", "length", "turns", "stop", "error", "judge", "tokens", "rollouter"})
_ABOUT = frozenset("attempt step iteration epoch time weight_version eval_step nonfinite".split())


class Place(NamedTuple):
    """The last (attempt, step) that was given; attempt None: the client knows steps alone."""

    attempt: int | None
    step: int

    def before(self, attempt: int, step: float) -> bool:
        return step > self.step if self.attempt is None else (attempt, step) > (self.attempt, self.step)


class Wanted(NamedTuple):
    name: str | None = None  # exact, or a beginning and `*`
    aliases: bool = True
    attempt: int | None = None

    def names(self, name: str) -> Iterator[str]:
        for one in (name, *(ALIASES.get(name, ()) if self.aliases else ())):
            if self.name in (None, one) or (self.name.endswith("*") and one.startswith(self.name[:-1])):
                yield one


async def metrics(request: Request, run: OpenRun) -> Response:
    attempt, step = params.count(request, "after_attempt"), params.count(request, "after_step", -1)
    limit = params.limit(request, 200, MAX_POINTS)
    run_id = params.text(request, "run_id")
    number = (run_id or "").rpartition("-")[2]
    only = None if run_id is None else int(number) if number.isdecimal() else -1
    wanted = Wanted(params.text(request, "name"), params.flag(request, "aliases", True), only)
    still_open = params.flag(request, "open")
    at = Place(attempt if attempt is not None or step is not None else 0, -1 if step is None else step)

    def read() -> Json:
        over = run.over(run.source)
        try:
            series = run.kept("series", lambda: Series(run.reader, run.job_id))
            return series.page(at, limit, wanted, over=over, still_open=still_open)
        except OSError as error:
            raise Unreadable(f"{FILE} cannot be read: {error.strerror or error}") from error

    return await answered(request, run, read)


class Series:
    """The metrics of one run as they now stand. Belongs to who holds the run."""

    def __init__(self, reader: RunReader, job_id: str) -> None:
        self._reader, self._job_id = reader, job_id
        self._evals: dict[Any, Any] = {}  # attempt that evaluated an iteration last
        self._evals_cursor = Cursor()

    def page(self, at: Place, limit: int, wanted: Wanted, *, over: bool, still_open: bool) -> Json:
        """`still_open`: also the points of the step that may get more of them; the cursor stays before it."""
        spans = _spans(self._reader.resumes())
        at = self._standing(at, spans, over)
        if len(spans) > 1:
            self._learn_evals()
        points: list[Json] = []
        last, nonfinite, more = at, 0, False
        for step in self._steps(at, spans):
            done = over or not step.open
            if len(points) >= limit and done:
                more = True
                break
            if done or still_open:
                points += step.points(wanted, self._job_id)
                nonfinite += step.nonfinite
            if done:
                last = Place(step.attempt, step.step)
            if step.read >= MAX_SCANNED:
                more = True
                break
        return {
            "points": points,
            "next_after": {"attempt": last.attempt or 0, "step": last.step},
            "next_after_step": last.step,
            "has_more": more,
            "nonfinite": nonfinite,
        }

    def _standing(self, at: Place, spans: list[Span], over: bool) -> Place:
        """A place behind the end is brought to it: the last step whose points are complete.

        For a step alone that lies there after a resume, which may have taken back what the client saw, to the
        resume's.
        """
        newest, from_step = spans[-1].attempt, int(spans[-2].until) if len(spans) > 1 else -1
        end = seek_line(self._reader.paths, FILE, _key, (newest, BIGGEST))
        last = max((_step_of(key[1], line) for key, line in self._lines(end) if key[0] == newest), default=from_step)
        if at.before(newest, last) or (at.attempt or newest, at.step) <= (newest, last):
            return at
        if at.attempt is None and len(spans) > 1:
            return Place(None, from_step)
        return Place(at.attempt and newest, last if over else max(from_step, last - 1))

    def _steps(self, at: Place, spans: list[Span]) -> Iterator[_Step]:
        """The steps behind a place, each once nothing can be added to it any more; then those that are `open`."""
        steps: dict[int, _Step] = {}
        newest = read = 0
        for span in spans:
            if not at.before(span.attempt, span.until):
                continue
            first = at.step if at.attempt in (None, span.attempt) else -1
            # Lines of step 0 may hold points of step 1.
            start = seek_line(self._reader.paths, FILE, _key, (span.attempt, first if first > 0 else -1))
            for (attempt, of), line in self._lines(start):
                if attempt < span.attempt or self._evaluated_again(line):
                    continue
                if attempt > span.attempt or of > span.until:
                    break
                read += len(line)
                if of > newest:
                    newest = of
                    for step in sorted(step for step in steps if step < newest):
                        steps[step].read = read
                        yield steps.pop(step)
                step = _step_of(of, line)
                if step >= newest and at.before(attempt, step):
                    steps.setdefault(step, _Step(step)).take(line)
        for step in sorted(steps):
            steps[step].open = True
            yield steps[step]

    def _lines(self, cursor: Cursor) -> Iterator[tuple[tuple[int, int], Json]]:
        more = True
        while more:
            part = read_lines(self._reader.paths, FILE, cursor, max_bytes=READ_BYTES)
            cursor, more = part.cursor, part.more
            for line in part.rows:
                with suppress(KeyError, TypeError):
                    yield _key(line), line

    def _evaluated_again(self, line: Json) -> bool:
        return "eval_step" in line and self._evals.get(line.get("iteration"), line["attempt"]) != line["attempt"]

    def _learn_evals(self) -> None:
        more = True
        while more:
            part = read_lines(self._reader.paths, FILE, self._evals_cursor, containing=b'"eval_step"')
            if part.restarted:
                self._evals.clear()
            for line in part.rows:
                if "eval_step" in line and type(line.get("iteration")) is int:
                    self._evals[line["iteration"]] = line.get("attempt")
            self._evals_cursor, more = part.cursor, part.more


class Span(NamedTuple):
    """The lines of an attempt count up to a step: a later one went on from there."""

    attempt: int
    until: float


def _spans(resumes: list[Resumed]) -> list[Span]:
    """Oldest first, the last one without an end. The lines of all of them together are in the order of their steps."""
    found = [Span(resumes[-1].attempt if resumes else 1, math.inf)]
    for i in range(len(resumes) - 1, -1, -1):
        before = resumes[i - 1].attempt if i else 1
        found.append(Span(before, min(found[-1].until, resumes[i].from_step)))
    return found[::-1]


def _step_of(step: int, line: Json) -> int:
    """Only an evaluation can be of step 0: what was measured before the first update counts to it."""
    return step if "eval_step" in line else max(1, step)


def _key(line: Json) -> tuple[int, int]:
    attempt, step = line["attempt"], line["step"]
    if type(attempt) is not int or type(step) is not int or not 0 <= step < BIGGEST:
        raise TypeError
    return attempt, step


class _Step:
    """What is known of one step: of each (attempt, name) the value that was written last."""

    def __init__(self, step: int) -> None:
        self.step, self.attempt = step, 0
        self.open = False  # more may come
        self.read = 0  # values read until it was complete
        self.nonfinite = 0
        self._lines: dict[tuple[int, str], tuple[float, Json]] = {}

    def take(self, line: Json) -> None:
        self.attempt = max(self.attempt, line["attempt"])
        names = line.get("nonfinite")
        self.nonfinite += len(names) if isinstance(names, list) else 0
        for name, value in line.items():
            if name not in _ABOUT and type(value) in (int, float) and abs(value) < math.inf:
                self._lines[line["attempt"], name] = (value, line)

    def points(self, wanted: Wanted, job_id: str) -> list[Json]:
        found = []
        for (attempt, name), (value, line) in self._lines.items():
            if wanted.attempt not in (None, attempt):
                continue
            for one in wanted.names(name):
                found.append(
                    {
                        "name": one,
                        "value": value,
                        "phase": _phase(one),
                        "attempt": attempt,
                        "step": self.step,
                        "epoch": line.get("epoch"),
                        "iteration": line.get("iteration"),
                        "data": {"eval_step": line["eval_step"]} if "eval_step" in line else {},
                        "created_at": _moment(line.get("time")),
                        "job_id": job_id,
                    }
                )
        return found


def _phase(name: str) -> str:
    family = name.replace(".", "/").partition("/")[0]
    return family if family in ("eval", "system", "train") else "rollout" if family in _ROLLOUT else "train"


def _moment(time: Any) -> str | None:
    try:
        return iso(time)
    except (TypeError, ValueError, OverflowError, OSError):
        return None
