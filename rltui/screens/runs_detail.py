"""The strip below the list of runs: what one line has no room for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.segment import Segment
from textual.geometry import Region
from textual.strip import Strip

from rltui.text import clean, fit
from rltui.watch import is_live
from rltui.widgets.bar import changed_cells
from rltui.widgets.lines import Lines, look_of
from rltui.words import duration

if TYPE_CHECKING:
    from rltui.sources.folder import RunRow


class RunDetail(Lines, can_focus=False):
    """Name, phase, cause of failure with what to do, path."""

    def __init__(self) -> None:
        super().__init__()
        self._row: RunRow | None = None

    def on_mount(self) -> None:
        self.line_count = 4

    def show(self, row: RunRow | None) -> None:
        """Repaints no cell that stays as it is."""
        if row == self._row:
            return
        width = self.size.width
        before = [self._row_strip(y, width) for y in range(self.line_count)]
        self._row = row
        if not width:
            self.refresh()  # hidden, perhaps for a moment alone: what the framework keeps of it is out of date
            return
        for y, old in enumerate(before):
            changed = changed_cells(old, self._row_strip(y, width))
            if changed is not None:
                self.refresh(Region(changed[0], y, changed[1] - changed[0], 1))

    def _row_strip(self, y: int, width: int) -> Strip:
        return Strip(self.line(y, width)).adjust_cell_length(width)

    def line(self, y: int, width: int) -> list[Segment]:
        if self._row is None:
            return []
        name, text, style = facts(self._row)[y]
        look = look_of(self)
        text = fit(clean(text, 600), width - 10)
        return [Segment(f" {name:<8}", look.style("dim")), Segment(text, look.style(style))]


def facts(row: RunRow) -> list[tuple[str, str, str]]:
    """(what, text, style) a line, four of them."""
    phase = f"{row.state}, {row.phase}" if row.phase and row.phase not in (row.state, "done") else row.state
    if row.silent:
        phase += ", no sign of life for a minute"
    where = f"{row.path}  on {row.host}" if row.host else row.path
    last = ("path", where, "dim")
    if row.problem:
        return [("name", row.name, "strong"), ("state", phase, "text"), ("cause", row.problem, "act"), last]
    state = ("state", phase, "text") if not row.error else ("cause", row.error, "act")
    more = ("to do", row.hint, "text") if row.error and row.hint else ("time", _times(row), "text")
    if row.finding and not row.error:
        more = ("doctor", row.finding, "act" if row.finding_state == "act" else "watch")
    return [("name", row.name, "strong"), state, more, last]


def _times(row: RunRow) -> str:
    parts = [f"elapsed {duration(row.elapsed_s)}"] if row.elapsed_s is not None else []
    if row.eta_s is not None and is_live(row.state):
        parts.append(f"left {duration(row.eta_s)}")
    if row.eval_reward is not None:
        parts.append(f"eval reward {row.eval_reward:.3f}")
    return ", ".join(parts) or "-"
