"""All that a rule says: what it measured, why that happens, what to change, and the course of what it reads."""

from __future__ import annotations

from itertools import chain, repeat

from rich.segment import Segment

from rltui.doctor.doctor import Finding
from rltui.doctor.record import Record
from rltui.doctor.report import key_words
from rltui.doctor.rule import State
from rltui.screens.monitor.health import GLYPHS, STYLES
from rltui.screens.runs_line import spark
from rltui.text_lines import wrap
from rltui.widgets.lines import Lines, look_of

_LABEL = 9  # cells
_COURSE = 40  # values
_LEAST = 6  # cells of their course

Line = tuple[str, str, str]  # label, text, style of the text


def detail_lines(finding: Finding, record: Record) -> list[Line]:
    """From what was found to what to do; a text may be longer than a line."""
    rule, reading = finding.rule, finding.reading
    lines: list[Line] = [("state", _state(finding), STYLES[finding.state])]
    if finding.muted:
        lines.append(("muted", f"because {finding.muted}", "watch"))
    if reading.measured:
        want = f", wanted {reading.want}" if reading.want else ""
        lines.append(("measured", f"{reading.measured}{want}", "strong"))
    if reading.says:
        lines.append(("", reading.says, "text"))
    wrong = finding.state in (State.ACT, State.WATCH)
    lines += [("", "", "text"), ("cause" if wrong else "if wrong", rule.cause, "text" if wrong else "dim")]
    if finding.keys:
        lines.append(("", "", "text"))
        lines += [
            ("change" if i == 0 else "", key_words(key, record, rule.id), "key") for i, key in enumerate(finding.keys)
        ]
    return lines


def _state(finding: Finding) -> str:
    over = finding.rule.window
    return f"{finding.state}" + (f"  over {over}" if over and over[0].isdigit() else f"  by the {over}" if over else "")


class FindingDetail(Lines, can_focus=False):
    """Of the rule under the cursor."""

    def __init__(self) -> None:
        super().__init__()
        self._finding: Finding | None = None
        self._record = Record()
        self._rows: list[tuple[str, str, str]] = []

    def show(self, finding: Finding | None, record: Record) -> None:
        self._finding, self._record = finding, record
        self._lay_out()

    def on_resize(self) -> None:
        self._lay_out()

    def _lay_out(self) -> None:
        finding, room = self._finding, max(20, self.size.width - _LABEL - 2)
        said = detail_lines(finding, self._record) if finding is not None else []
        if self.size.height < 12:  # no room for air
            said = [line for line in said if line[1]]
        before = self._rows
        self._rows = [
            (label if first else "", row, style)
            for label, text, style in said
            for first, row in zip(chain([True], repeat(False)), wrap(text, room), strict=False)
        ]
        if finding is not None and finding.metric and self._record.count(finding.metric) > 1:
            self._rows += [] if self.size.height < 12 else [("", "", "text")]
            self._rows.append(("see", finding.metric, "text"))
        self.line_count = len(self._rows)
        if self._rows != before:
            self.refresh()

    def line(self, y: int, width: int) -> list[Segment]:
        look = look_of(self)
        label, text, style = self._rows[y]
        glyph = ""
        if y == 0 and self._finding is not None:
            glyph = f"{look.glyph(GLYPHS[self._finding.state])} "
        head = Segment(f" {label:<{_LABEL}}", look.style("dim"))
        if label == "see":
            room = width - _LABEL - len(text) - 4
            course = spark(self._record.recent(text, _COURSE), min(room, _COURSE), look.bars) if room >= _LEAST else ""
            return [head, Segment(f"{text}  ", look.style("text")), Segment(course, look.series(0))]
        return [head, Segment(f"{glyph}{text}", look.style(style))]
