"""The first tab of a run as plain text, without colours: for `watch`, for the logs of a CI, for a pipe. Pure."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rltui.charts.draw import draw
from rltui.charts.parts import Options
from rltui.charts.smooth import titled
from rltui.model.event_view import told
from rltui.model.marks import marks
from rltui.model.now import now_lines
from rltui.model.overview_view import LAST_EVENTS, Shown, charts
from rltui.model.progress import epoch, progress
from rltui.text import clean, fit, width
from rltui.text_lines import wrap

if TYPE_CHECKING:
    from rltui.doctor.doctor import Finding
    from rltui.look.look import Look
    from rltui.model.metrics import MetricStore
    from rltui.model.run import RunModel

CHART_ROWS = 7
LEAST, MOST = 60, 200  # columns
BESIDE = 100  # columns, from which on two boxes stand side by side
_GAP = "  "
_NAME = 10  # cells


def text(model: RunModel, findings: Sequence[Finding], look: Look, columns: int, now: float) -> list[str]:
    """Lines of at most `columns` cells (60 to 200 of them are used)."""
    columns = max(LEAST, min(MOST, columns))
    state = (model.status or {}).get("state") or "starting"
    lines = [fit(f"{model.name}  {look.state(state)[0]} {state}", columns)]
    lines.append("".join(part for part, _ in progress(model.status, look, columns, now)).strip())
    if model.error:
        lines.append(fit(f"{look.glyph('watch')} {model.error}", columns))
    beside = columns >= BESIDE
    half = (columns - len(_GAP)) // 2 if beside else columns
    options = Options(marks=marks(model.events), growing=model.live)
    boxes = [_chart(shown, options, look, half) for shown in charts(model.metrics)]
    boxes += [_health(findings, look, half), _now(model, look, half)]
    pairs = [boxes[i : i + 2] for i in range(0, len(boxes), 2)] if beside else [[box] for box in boxes]
    for pair in pairs:
        height = max(map(len, pair))
        filled = [[*box, *[""] * (height - len(box))] for box in pair]
        lines += [_beside(row, half) for row in zip(*filled, strict=True)]
    lines.append(_title("Last events", "", look, columns))
    for event in told(model.events)[-LAST_EVENTS:]:
        at = epoch(event.get("created_at"))
        clock = time.strftime("%H:%M:%S", time.localtime(at)) if at is not None else " " * 8
        level = {"warning": "watch", "error": "act"}.get(str(event.get("level")), "")
        sign = look.glyph(level) if level else " "
        lines.append(fit(f"{clock} {sign} {clean(event.get('message') or event.get('type'), 400)}", columns))
    return [line.rstrip() for line in lines]


def reward_chart(metrics: MetricStore, look: Look, columns: int) -> list[str]:
    """The first chart alone; no lines while there is nothing to draw."""
    first = charts(metrics)[0]
    return _chart(first, Options(growing=True), look, max(LEAST, min(MOST, columns))) if first.series else []


def _beside(row: Sequence[str], size: int) -> str:
    return _GAP.join(cell + " " * (size - width(cell)) for cell in row)


def _title(title: str, info: str, look: Look, columns: int) -> str:
    line = look.glyph("hline")
    head, tail = f"{line} {title} ", f" {info} {line}" if info else line
    return fit(head + line * max(0, columns - width(head) - width(tail)) + tail, columns)


def _chart(shown: Shown, options: Options, look: Look, columns: int) -> list[str]:
    drawing = draw(shown.series, options, columns, CHART_ROWS, look.chart_level, look)
    lines = ["".join(part for part, _ in line) for line in drawing.lines]
    return [_title(titled(shown.title, shown.plan.ema), drawing.description.title(look), look, columns), *lines]


def _health(findings: Sequence[Finding], look: Look, columns: int) -> list[str]:
    from rltui.doctor.doctor import counts, speaking
    from rltui.doctor.report import WORDS

    heard, told_ = speaking(findings), counts(findings)
    lines = [fit(f"{WORDS[one.state]:7} {one.rule.id} {one.line}", columns) for one in heard]
    rest = ", ".join(f"{told_[name]} {name}" for name in ("ok", "no data", "muted") if told_.get(name))
    info = f"{len(heard)} of {len(findings)} rules speak" if findings else ""
    return [_title("Health", info, look, columns), *lines, *([rest] if rest else [])]


def _now(model: RunModel, look: Look, columns: int) -> list[str]:
    lines = [_title("Now", "", look, columns)]
    for name, said, _ in now_lines(model.status, model.metrics, model.groups):
        rows = list(wrap(said, columns - _NAME))
        lines += [f"{name if i == 0 else '':<{_NAME}}{row}" for i, row in enumerate(rows)]
    return lines
