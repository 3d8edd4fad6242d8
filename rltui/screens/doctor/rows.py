"""The rules as lines of a list: those that want to be heard first, then those that were muted, are content, wait."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

from rich.segment import Segment

from rltui.doctor.doctor import Finding
from rltui.doctor.rule import State
from rltui.screens.monitor.health import GLYPHS, STYLES
from rltui.text import fit, width

if TYPE_CHECKING:
    from rltui.look.look import Look

GROUPS = (*(state.value for state in (State.ACT, State.BROKEN, State.WATCH)), "muted", State.OK.value, State.NONE.value)
_GROUP, _TITLE, _MEASURED = 9, 25, 15  # cells
_WANT = 8  # of it, at least


def group(finding: Finding) -> str:
    """The one that a finding stands in."""
    return "muted" if finding.muted else finding.state.value


class FindingRows:
    """Row source of a list."""

    def __init__(self) -> None:
        self._rows: list[Finding] = []

    def update(self, findings: Sequence[Finding]) -> None:
        self._rows = sorted(findings, key=lambda finding: (GROUPS.index(group(finding)), finding.rule.id))

    def __len__(self) -> int:
        return len(self._rows)

    def row(self, i: int) -> Finding:
        return self._rows[i]

    def find(self, rule: str) -> int | None:
        """The row of a rule."""
        return next((i for i, finding in enumerate(self._rows) if finding.rule.id == rule), None)

    def key(self, i: int) -> Hashable:
        return self._rows[i].rule.id

    def cells(self, i: int, width_: int, look: Look) -> list[Segment]:
        finding = self._rows[i]
        name = group(finding)
        quiet = finding.muted or finding.state is State.NONE
        style = look.style("dim" if quiet else STYLES[finding.state])
        first = i == 0 or group(self._rows[i - 1]) != name  # of its group: the word stands once
        head = [
            Segment(f" {name if first else '':{_GROUP}}", look.style("dim" if quiet else STYLES[finding.state])),
            Segment(f"{look.glyph(GLYPHS[finding.state])} ", style),
            Segment(f"{finding.rule.id} ", look.style("dim")),
            Segment(f"{fit(finding.title, _TITLE):{_TITLE}} ", look.style("dim" if quiet else "text")),
        ]
        room = width_ - 1 - _GROUP - 2 - 4 - _TITLE - 1
        reading = finding.reading
        if not reading.measured:
            return [*head, Segment(fit(reading.says, max(0, room - 1)), look.style("dim"))]
        strong = "strong" if finding.speaks else "dim" if quiet else "text"
        measured = fit(reading.measured, _MEASURED)
        value = Segment(" " * (_MEASURED - width(measured)) + measured, look.style(strong))
        if room < _MEASURED + 2 + _WANT:
            return [*head, value]
        return [*head, value, Segment("  " + fit(reading.want, max(0, room - _MEASURED - 3)), look.style("dim"))]
