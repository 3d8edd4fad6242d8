"""One run in one line: which columns fit, and their cells."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.segment import Segment

from rltui.text import clean, fit, width
from rltui.watch import is_live
from rltui.words import duration

if TYPE_CHECKING:
    from rltui.look.look import Look
    from rltui.sources.folder import RunRow

STATE, STEP, REWARD, AGE = 10, 11, 8, 8  # cells; "unreadable", "1000/10000", "-123.456", "23 min"
NAME_MIN, NAME_MAX, NAME_WIDEST = 16, 28, 40  # the largest where there is an `about`: a short label with its id
ABOUT_MIN = 12
WIDE, WIDER, WIDEST = 90, 110, 150  # from these on: the age; the sparkline; a wider one


@dataclass(frozen=True)
class Columns:
    """Cells of each column; 0: not shown."""

    name: int
    spark: int
    age: int
    about: int


def columns(cells: int) -> Columns:
    """What fits into a line of so many cells. State, name, step and reward always stand."""
    age = AGE if cells >= WIDE else 0
    spark = (16 if cells < WIDEST else 30) if cells >= WIDER else 0
    fixed = 4 + STATE + 2 + 2 + STEP + 2 + REWARD + (spark and spark + 2) + (age and age + 2) + 1
    room = max(NAME_MIN, cells - fixed)
    name = NAME_MAX if cells < WIDEST else NAME_WIDEST
    about = room - name - 2
    return Columns(name, spark, age, about) if spark and about >= ABOUT_MIN else Columns(room, spark, age, 0)


def head(cells: int, look: Look) -> list[Segment]:
    """The names of the columns."""
    c, style = columns(cells), look.style("dim")
    text = f"    {'state':{STATE}}  {'name':{c.name}}  {'step':>{STEP}}  {'reward':>{REWARD}}"
    if c.spark:
        text += f"  {'':{c.spark}}"
    if c.age:
        text += f"  {'age':>{c.age}}"
    if c.about:
        text += f"  {'cause, phase or host':{c.about}}"[: c.about + 2]
    return [Segment(text, style)]


def line(row: RunRow, c: Columns, look: Look, *, marked: bool, now: float, pinned: bool = False) -> list[Segment]:
    """The cells of a run, for `columns` of the same width. `now`: epoch seconds that its age is counted to."""
    style = look.style
    glyph, color = look.state(row.state)
    word = f"{glyph} {fit(clean(row.state, 20), STATE):{STATE}}  "
    signs = f"{look.glyph('mark') if marked else ' '}{look.glyph('pin') if pinned else ' '}"
    parts = [
        *([Segment(signs, style("marked")), Segment(word, color)] if signs.strip() else []),
        *([] if signs.strip() else [Segment(f"  {word}", color)]),
        *_name(row, c.name, look),
    ]
    if row.problem:
        room = 2 + STEP + 2 + REWARD + sum(size + 2 for size in (c.spark, c.age, c.about) if size)
        return [*parts, Segment("  " + padded(clean(row.problem, 300), room - 2), style("act"))]
    numbers = f"  {steps(row.step, row.steps):>{STEP}}  {reward(row.reward):>{REWARD}}"
    parts.append(Segment(numbers, style("text")))
    if c.spark:
        parts.append(Segment("  " + padded(spark(row.spark or (), c.spark, look.bars), c.spark), look.series(0)))
    if c.age:
        at = row.updated or row.created
        tail = f"  {age(now - at) if at else '':>{c.age}}"
        text, name = about(row) if c.about else ("", "dim")
        if name == "dim":  # one style, so one code less is sent
            tail, text = f"{tail}  {padded(text, c.about)}" if c.about else tail, ""
        parts.append(Segment(tail, style("dim")))
        if text:
            parts.append(Segment("  " + padded(text, c.about), style(name)))
    return parts


def about(row: RunRow) -> tuple[str, str]:
    """(text, style): what is wrong with the run, else what it does, else where it was. Of a job: its server first."""
    text, style = _about(row)
    if "://" not in row.path or row.problem or text == row.host:
        return text, style
    return f"{row.host}: {text}" if text else clean(row.host or "", 60), style


def _about(row: RunRow) -> tuple[str, str]:
    if row.error:
        return clean(row.error, 300), "act"
    if row.silent:
        return "no sign of life for a minute", "watch"
    if row.finding:
        return clean(row.finding, 300), "act" if row.finding_state == "act" else "watch"
    if is_live(row.state):
        phase = clean(row.phase or "", 40)
        left = f"{duration(row.eta_s)} left" if row.eta_s is not None else ""
        return ", ".join(filter(None, (phase, left))), "dim"
    return clean(row.host or "", 60), "dim"


def _name(row: RunRow, cells: int, look: Look) -> list[Segment]:
    """The folder's name; what is the same in all names stands back."""
    label, found, tail = clean(row.name, 200).rpartition("-rl_")
    if not found:
        label, tail = tail, ""
    shown = fit(label, cells)
    rest = cells - width(shown)
    return [
        Segment(shown, look.style("strong")),
        Segment(padded(f"-rl_{tail}" if found and rest > 6 else "", rest), look.style("dim")),
    ]


def steps(done: int | None, total: int | None) -> str:
    if done is None:
        return "-"
    return f"{done}/{total}" if total else str(done)


def reward(value: float | None) -> str:
    """Three decimals, so that a column of them is aligned; far numbers as they fit."""
    if value is None or not math.isfinite(value):
        return "-   "
    return f"{value:.3f}" if abs(value) < 1000 else f"{value:.1e}"


def age(seconds: float) -> str:
    """'3 s', '12 min', '5 h', '8 d': how long ago, in the largest unit."""
    s = max(0, int(seconds))
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if s >= size:
            return f"{s // size} {unit}"
    return f"{s} s"


def spark(values: Sequence[float | None], cells: int, bars: str) -> str:
    """The course of `values` in at most so many cells, between their least and their largest."""
    found = [value if value is not None and math.isfinite(value) else None for value in values]
    known = [value for value in found if value is not None]
    if not known or cells < 1:
        return ""
    if len(found) > cells:
        found = [_mean(found[i * len(found) // cells : (i + 1) * len(found) // cells]) for i in range(cells)]
    low, high = min(known), max(known)
    top = len(bars) - 1
    scale = (top - 1) / (high - low) if high > low else 0.0
    level = [top // 2 if not scale else 1 + round((value - low) * scale) for value in found if value is not None]
    rest = iter(level)
    return "".join(bars[0] if value is None else bars[next(rest)] for value in found)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def padded(text: str, cells: int) -> str:
    """Cleaned `text` in exactly so many cells."""
    text = fit(text, cells)
    return text + " " * max(0, cells - width(text))
