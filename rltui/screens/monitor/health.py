"""The findings that want to be heard, a line each, and below them how the other rules do."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

from rich.segment import Segment

from rltui.doctor.doctor import Finding, counts, speaking
from rltui.doctor.rule import State
from rltui.text import fit, width

if TYPE_CHECKING:
    from rltui.look.look import Look

STYLES = {State.ACT: "act", State.BROKEN: "act", State.WATCH: "watch", State.OK: "good", State.NONE: "dim"}
GLYPHS = {
    State.ACT: "act",
    State.BROKEN: "state_unreadable",
    State.WATCH: "watch",
    State.OK: "good",
    State.NONE: "dot",
}
_WORD = 7  # cells: "broken", and a space


class HealthRows:
    """Row source of a list."""

    def __init__(self) -> None:
        self.info = ""  # "2 of 36 rules speak"
        self._speaking: list[Finding] = []
        self._rest = ""

    def update(self, findings: Sequence[Finding]) -> None:
        self._speaking = speaking(findings)
        told = counts(findings)
        parts = [f"{told[name]} {name}" for name in (State.OK, State.NONE, "muted") if told[name]]
        self._rest = ", ".join(parts)
        heard = len(self._speaking)
        self.info = f"{heard} of {len(findings)} rules speak" if findings else ""

    def rule(self, i: int) -> str:
        """Of row i; "" for the last row, which is about all the others."""
        return self._speaking[i].rule.id if i < len(self._speaking) else ""

    def __len__(self) -> int:
        return len(self._speaking) + bool(self._rest)

    def key(self, i: int) -> Hashable:
        return self.rule(i)

    def cells(self, i: int, width_: int, look: Look) -> list[Segment]:
        if i >= len(self._speaking):
            return [Segment(f" {look.glyph('dot')} {self._rest}; enter shows all rules", look.style("dim"))]
        finding = self._speaking[i]
        style = look.style(STYLES[finding.state])
        head = f" {look.glyph(GLYPHS[finding.state])} {finding.state:{_WORD}}"
        room = max(0, width_ - width(head))
        whole, short = f"{finding.rule.id} {finding.line}", f"{finding.rule.id} {finding.short}"
        text = fit(whole if width(whole) <= room else short, room)
        return [Segment(head, style), Segment(text, look.style("text"))]
