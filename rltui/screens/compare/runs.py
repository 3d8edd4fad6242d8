"""The runs that are compared, a line each: the legend of all colours and markers, and what became of each."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from rich.segment import Segment

from rltui.model.compared import Outcome
from rltui.model.paired import Paired, differs
from rltui.screens.runs_line import padded, reward, steps
from rltui.text_lines import wrap
from rltui.widgets.lines import Lines, look_of
from rltui.words import amount, duration

if TYPE_CHECKING:
    from rltui.look.look import Look

NAME_LEAST, NAME_MOST = 14, 40  # cells
_HEAD = 5  # cells: the cursor's margin, the marker, the glyph of the state


class Column(NamedTuple):
    title: str
    cells: int
    text: Callable[[Outcome, Paired | None], str]


def _interval(one: Outcome, test: Paired | None) -> str:
    return "" if test is None or test.low is None else f"{test.low:+.3f} to {test.high:+.3f}"


def _whole(step: float | None) -> int | None:
    return None if step is None else int(step)


def _chance(one: Outcome, test: Paired | None) -> str:
    if test is None or test.p is None:
        return ""
    return "< 0.001" if test.p < 0.001 else f"{test.p:.3f}"


_STATE = Column("state", 10, lambda one, test: one.state)
_DIFFERENCE = Column(
    "to base", 8, lambda one, test: "baseline" if test is None else "-   " if test.mean is None else f"{test.mean:+.3f}"
)
_P = Column("p", 7, _chance)
_ALWAYS = (
    Column("step", 9, lambda one, test: steps(one.step, one.steps)),
    Column("reward", 7, lambda one, test: reward(one.reward)),
    Column("eval", 7, lambda one, test: reward(one.eval_reward)),
    _DIFFERENCE,
    _P,
)
_WITH_ROOM = (  # in this order, as long as there is some
    Column("95 % interval", 16, _interval),
    Column("eval at", 7, lambda one, test: steps(one.eval_step, None)),
    Column("best eval", 9, lambda one, test: reward(one.best_eval)),
    Column("best at", 7, lambda one, test: steps(_whole(one.best_eval_step), None)),
    Column("time", 9, lambda one, test: duration(one.elapsed_s)),
    Column("episodes", 8, lambda one, test: steps(one.episodes, None)),
    Column("tokens", 7, lambda one, test: "-" if one.tokens is None else amount(one.tokens)),
)


class Plan(NamedTuple):
    """What fits into a line."""

    name: int
    state: int
    columns: tuple[Column, ...]


def plan(cells: int) -> Plan:
    """Of a line of so many cells."""
    room = cells - _HEAD - NAME_LEAST - sum(column.cells + 2 for column in _ALWAYS) - 1
    state = _STATE.cells if room > _STATE.cells + 2 else 0
    room -= state and state + 2
    more = []
    for column in _WITH_ROOM:
        if column.cells + 2 > room:
            break
        more.append(column)
        room -= column.cells + 2
    return Plan(min(NAME_MOST, NAME_LEAST + max(0, room)), state, (*_ALWAYS, *more))


class RunsHead(Lines, can_focus=False):
    """The names of the columns."""

    def on_mount(self) -> None:
        self.line_count = 1

    def line(self, y: int, width: int) -> list[Segment]:
        p = plan(width)
        text = f"{'':{_HEAD}}{'run':{p.name}}" + (f"  {'state':{p.state}}" if p.state else "")
        text += "".join(f"  {column.title:>{column.cells}}" for column in p.columns)
        return [Segment(text, look_of(self).style("dim"))]


class OutcomeRows:
    """Row source of the list."""

    def __init__(self) -> None:
        self._rows: Sequence[Outcome] = ()
        self._names: Sequence[str] = ()
        self._tests: Sequence[Paired | None] = ()
        self._unlike: Sequence[bool] = ()

    def update(
        self, rows: Sequence[Outcome], names: Sequence[str], tests: Sequence[Paired | None], unlike: Sequence[bool]
    ) -> None:
        """`unlike`: whose reward is another thing than the baseline's; their p stands in the sentence that says so."""
        self._rows, self._names, self._tests, self._unlike = rows, names, tests, unlike

    def __len__(self) -> int:
        return len(self._rows)

    def key(self, i: int) -> Hashable:
        return self._rows[i].path

    def cells(self, i: int, width: int, look: Look) -> list[Segment]:
        one, test, p = self._rows[i], self._tests[i], plan(width)
        glyph, state = look.state(one.state)
        parts = [
            Segment(f" {look.marker(i)} ", look.series(i)),
            Segment(f"{glyph} ", state),
            Segment(padded(self._names[i], p.name), look.style("strong" if test is None else "text")),
        ]
        if p.state:
            parts.append(Segment("  " + padded(one.state, p.state), state))
        if one.state == "unreadable":
            room = sum(column.cells + 2 for column in p.columns) - 2
            return [*parts, Segment("  " + padded(one.error or "", room), look.style("act"))]
        for column in p.columns:
            style = _judged(test, len(self._rows) - 1) if column is _DIFFERENCE else "text"
            text = column.text(one, test)
            if column is _P and text and self._unlike[i]:
                text, style = "unlike", "watch"
            parts.append(Segment(f"  {text:>{column.cells}}", look.style(style)))
        return parts


def _judged(test: Paired | None, tests: int) -> str:
    """The style of a difference: it has a colour where it is one."""
    if test is None:
        return "dim"
    if not differs(test, tests) or test.mean is None:
        return "text"
    return "good" if test.mean > 0 else "act"


class Sentence(Lines, can_focus=False):
    """What the evaluation says of the run under the cursor; as many lines as its height."""

    def __init__(self) -> None:
        super().__init__()
        self._text = ""
        self._rows: list[str] = []

    def say(self, text: str) -> None:
        if text != self._text:
            self._text = text
            self._lay_out()

    def on_resize(self) -> None:
        self._lay_out()

    def _lay_out(self) -> None:
        rows = wrap(self._text, max(20, self.size.width - 4)) if self._text else []
        if rows != self._rows:
            self._rows = rows
            self.line_count = len(rows)
            self.refresh()

    def line(self, y: int, width: int) -> list[Segment]:
        return [Segment(f"   {self._rows[y]}", look_of(self).style("dim"))]
