"""A chart as lines of styled text: a pure function of the data, the options and the size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import inf

from rltui.charts import numbers
from rltui.charts.canvas import Canvas, Level
from rltui.charts.parts import Description, Ink, Options, Run, Series, Shapes, trend
from rltui.charts.plot import Plot, paint
from rltui.charts.scale import Scale, clip, fit_scale, log_refusal, stride_end, ticks
from rltui.text import fit
from rltui.text import width as cells

_SAMPLE = 4096  # values from which the clip is taken; all of them up to here
_MIN_PLOT = 8  # cells; a narrower plot goes without axis labels
_NAME = 5  # cells; shorter names in the legend say nothing
_LEGEND_ROWS = 6  # from this height on several series have a legend line


@dataclass(frozen=True)
class Drawing:
    """`lines` are runs of one style, each line `width` cells. The plot starts at column `left`; `x` is its scale."""

    lines: list[list[Run]]
    description: Description
    left: int = 0
    top: int = 0
    plot_width: int = 0
    x: Scale | None = None


@dataclass
class _Notes:
    texts: list[str] = field(default_factory=list)
    hidden: int = 0
    exact: bool = True


def draw(series: Sequence[Series], options: Options, width: int, height: int, level: Level, shapes: Shapes) -> Drawing:
    """The chart in `width` x `height` cells. Never fails on data: what cannot be drawn is said in a line."""
    if width < 1 or height < 1:
        return Drawing([], Description())
    legend = len(series) > 1 and height >= _LEGEND_ROWS
    bottom = height >= 3
    rows = height - legend - bottom
    x_range = _x_range(series, options)
    description = _describe(series)
    if x_range is None:
        return _message("no values yet" if options.growing else "no values", width, height, description)
    notes = _Notes()
    x_scale = _x_scale(x_range, options, notes)
    y_scale = _y_scale(series, x_scale, options, notes)
    if y_scale is None:
        total = sum(one.pyramid.count(x_scale.low, x_scale.high) for one in series)
        text = "no values in view" if not total else f"{total:,} values in view, none a finite number"
        return _message(text, width, height, description)
    marks = ticks(y_scale, max(2, rows // 2))
    texts = (numbers.log_labels if y_scale.log else numbers.labels)(marks)
    left = len(texts[0]) + 1 if texts and width - len(texts[0]) - 1 >= _MIN_PLOT else 0
    plot = Plot(Canvas(width - left, rows, level), x_scale, y_scale)
    paint(plot, series, options, shapes, level)
    lines = plot.canvas.lines()
    if left:
        labels = {plot.row(mark): text for mark, text in zip(marks, texts, strict=True)}
        lines = [_axis(labels.get(row), left, level) + line for row, line in enumerate(lines)]
    description = _finish(description, series, x_scale, options, notes)
    if legend:
        lines.insert(0, _legend(series, options, width, shapes))
    if bottom:
        lines.append(_bottom(series, options, x_scale, description, left, width, shapes))
    return Drawing(lines, description, left, int(legend), width - left, x_scale)


# ---- what is in view


def _x_range(series: Sequence[Series], options: Options) -> tuple[float, float] | None:
    if not any(len(one.pyramid) for one in series):
        return None
    if options.view is not None:
        return options.view
    ranges = [found for one in series if (found := one.pyramid.range()) is not None]
    low, high = min(low for low, _ in ranges), max(high for _, high in ranges)
    return low, (stride_end(low, high) if options.growing else high)


def _x_scale(x_range: tuple[float, float], options: Options, notes: _Notes) -> Scale:
    low, high = x_range
    if not high > low:
        low, high = low - (low != 0.0), low + 1.0  # a single step: whole numbers at both ends, and there is no step -1
    refusal = log_refusal("x", low) if options.log_x else None
    if refusal:
        notes.texts.append(refusal)
    return Scale(low, high, options.log_x and refusal is None)


def _y_scale(series: Sequence[Series], x: Scale, options: Options, notes: _Notes) -> Scale | None:
    found = [one.pyramid.bounds(x.low, x.high) for one in series]
    found += [one.smooth.bounds(x.low, x.high) for one in series if one.smooth is not None]
    low = min((pair[0] for pair in found if pair), default=inf)
    high = max((pair[1] for pair in found if pair), default=-inf)
    if low > high:
        return None
    samples = [one.pyramid.sample(x.low, x.high, _SAMPLE) for one in series] if _hides(options) else []
    kept = clip([value for values, _ in samples for value in values]) if options.clip else None
    low, high = (kept.low, kept.high) if kept else (low, high)
    limit = options.limits[0]
    refusal = log_refusal("y", low if limit is None else limit) if options.log_y else None
    if refusal:
        notes.texts.append(refusal)
    scale = fit_scale(low, high, options.log_y and refusal is None, options.limits)
    if samples:
        _count_hidden(scale, series, samples, x, options.clip, notes)
    return scale


def _hides(options: Options) -> bool:
    return options.clip or options.limits != (None, None)


def _count_hidden(
    scale: Scale,
    series: Sequence[Series],
    samples: list[tuple[list[float], int]],
    x: Scale,
    clipped: bool,
    notes: _Notes,
) -> None:
    """Counts if few points are hidden, else estimates from the samples."""
    for one, (values, total) in zip(series, samples, strict=True):
        outside = one.pyramid.count_outside(x.low, x.high, scale.low, scale.high)
        if outside is None:
            seen = sum(not scale.low <= value <= scale.high for value in values)
            outside, notes.exact = round(seen * total / max(1, len(values))), notes.exact and total <= _SAMPLE
        notes.hidden += outside
    if not notes.hidden and not clipped:
        return  # limits that hide nothing need no word
    about = "" if notes.exact else "about "
    points = "point" if notes.hidden == 1 else "points"
    notes.texts.append(f"{about}{notes.hidden:,} {points} hidden ({'clip 1-99 %' if clipped else 'limits'})")


# ---- what is said


def _describe(series: Sequence[Series]) -> Description:
    if not series:
        return Description()
    last, moved = series[0].front.last(), trend(series[0].front)
    gaps = sum(one.pyramid.gap_count for one in series)
    change, over = moved if moved else (None, 0.0)
    return Description(last[1] if last else None, change, over, gaps=gaps)


def _finish(
    description: Description, series: Sequence[Series], x: Scale, options: Options, notes: _Notes
) -> Description:
    gaps = sum(one.pyramid.gaps(x.low, x.high) for one in series)
    if gaps:
        notes.texts.append(f"{gaps:,} NaN or Inf")
    if options.view is not None:
        notes.texts.append("zoom, not following")
    return replace(description, hidden=notes.hidden, exact=notes.exact, notes=tuple(notes.texts))


def _message(text: str, width: int, height: int, description: Description) -> Drawing:
    text = fit(text, width).center(width)
    middle = (height - 1) // 2
    lines: list[list[Run]] = [[(text if row == middle else " " * width, "dim")] for row in range(height)]
    return Drawing(lines, replace(description, notes=(text.strip(),)))


# ---- axes and legend


def _axis(label: str | None, left: int, level: Level) -> list[Run]:
    tick, line = ("+", "|") if level == "ascii" else ("┤", "│")
    if label is None:
        return [(" " * (left - 1) + line, "axis")]
    return [(label + tick, "axis")]


def _bottom(
    series: Sequence[Series],
    options: Options,
    x: Scale,
    description: Description,
    left: int,
    width: int,
    shapes: Shapes,
) -> list[Run]:
    """The ends of x, and between them what the cursor reads or else the notes, which an end makes room for."""
    room = width - left
    end_x = _last_x(series, options, x)
    seats, room = room, x.dot(end_x, room) + 1  # the right label ends below the last point
    first, last = (fit(options.axis.label(end), room) for end in (x.low, end_x))
    named = fit(f"{options.axis.name} {first}", room)
    between = " · " if shapes.glyph("dot") == "·" else ", "
    middle = _fit_runs(_read_out(series, options) or [(between.join(description.notes), "watch")], room)
    used = sum(cells(text) for text, _ in middle)
    for start, end in ((named, last), (first, last), ("", last), ("", "")):
        space = room - cells(start) - cells(end) - used
        if space >= 2 * bool(used) * bool(end) + (not used):
            break
    before = max(bool(start), (room - used) // 2 - cells(start)) if used else 0
    before = max(0, min(before, space - bool(end)))
    end = " " * (space - before) + end + " " * (seats - room)
    return [(" " * left + start + " " * before, "axis"), *middle, (end, "axis")]


def _last_x(series: Sequence[Series], options: Options, x: Scale) -> float:
    """The end of x, or the last point where the axis of a growing chart goes on beyond it: there is no such step."""
    if options.view is not None or not options.growing:
        return x.high
    last = max(found[1] for one in series if (found := one.pyramid.range()) is not None)
    return last if last > x.low else x.high


def _read_out(series: Sequence[Series], options: Options) -> list[Run]:
    """The x of the cursor, the values there of a single series, and the marks it stands on."""
    point = None if options.cursor is None else series[0].front.at(options.cursor)
    if point is None:
        return []
    runs: list[Run] = [(f"{options.axis.name} {options.axis.label(point[0])}", "strong")]
    if len(series) == 1:
        runs.append((f"  {numbers.number(point[1])}", Ink(series[0].index)))
        raw = series[0].pyramid.at(point[0])
        if raw is not None and series[0].front is not series[0].pyramid:
            runs.append((f"  raw {numbers.number(raw[1])}", "dim"))
    marks = [mark.label for mark in options.marks if mark.x == point[0]]
    return [*runs, *((f"  {label}", "accent") for label in marks)]


def _legend(series: Sequence[Series], options: Options, width: int, shapes: Shapes) -> list[Run]:
    """Marker, name and value (at the cursor, else the last) of each series."""
    values = []
    for one in series:
        point = one.front.last() if options.cursor is None else one.front.at(options.cursor)
        values.append(numbers.number(point[1]) if point else "")
    share = max(4, width // len(series)) - 3  # cells for a name and a value
    if share < _NAME + max(map(len, values)):
        values = values if options.cursor is not None else [""] * len(values)
    runs: list[Run] = []
    for one, value in zip(series, values, strict=True):
        name = fit(one.name, share - len(value) - 1) if share >= _NAME + len(value) else ""
        runs.append((" ".join(filter(None, (shapes.marker(one.index), name, value))) + "  ", Ink(one.index)))
    return _fit_runs(runs, width, pad=True)


def _fit_runs(runs: list[Run], room: int, pad: bool = False) -> list[Run]:
    kept: list[Run] = []
    for text, style in runs:
        text = fit(text, room)
        room -= cells(text)
        if text:
            kept.append((text, style))
    if pad and room > 0:
        kept.append((" " * room, "text"))
    return kept
