"""What would be started: config, target, folder, command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rich.segment import Segment

from rltui.screens.launch.aim import about
from rltui.text import clean
from rltui.text_lines import crop, printable, wrap
from rltui.widgets.lines import Lines, look_of
from rltui.words import shortened

if TYPE_CHECKING:
    from rltui.cli.start import Plan

LABEL = 10  # cells, the blank before it included


class Head(Lines, can_focus=False):
    """Four rows, and more while the command is unfolded. Its height is that of its content."""

    DEFAULT_CSS = "Head { height: 4; }"

    def __init__(self) -> None:
        super().__init__()
        self._config: Path | None = None
        self._target = ""
        self._plan: Plan | None = None
        self._amount = ""
        self._open = False
        self._rows: list[tuple[str, list[tuple[str, str]]]] = []  # label, (text, style) pieces

    def show(self, config: Path | None, target: str, plan: Plan | None = None, amount: str = "") -> None:
        self._config, self._target, self._plan, self._amount = config, target, plan, amount
        self._lay_out()

    def toggle(self) -> None:
        """Fold the command, or show all of it."""
        self._open = not self._open
        self._lay_out()

    @property
    def command(self) -> str:
        """The exact command, as a shell takes it; "" while it is not known."""
        return self._plan.launcher.shown(self._plan.job) if self._plan is not None else ""

    def on_resize(self) -> None:
        self._lay_out()

    def _lay_out(self) -> None:
        if not self.size.width or self._config is None:
            return
        name, room = shortened(self._config), max(20, self.size.width - LABEL - 1)
        told = [(name, "strong"), (f"   {self._amount}" if self._amount else "", "dim")]
        rows = [
            ("config", told),
            ("target", [(self._target, "strong"), (f"   {about(self._target)}", "dim")]),
        ]
        if self._plan is None:
            rows += [("run", [("named once the config is valid", "dim")]), ("command", [("", "dim")])]
        else:
            run_dir = self._plan.job.run_dir
            if run_dir is None:
                rows.append(("run", [("the target names it, and has its folder", "dim")]))
            else:
                rows.append(("run", [(run_dir.name, "strong"), (f"   in {shortened(run_dir.parent)}", "dim")]))
            lines = wrap(printable(self.command), room) if self._open else [printable(self.command)]
            rows += [("command" if n == 0 else "", [(line, "text")]) for n, line in enumerate(lines)]
        self._rows = rows
        self.line_count = len(rows)
        if self.styles.height is None or self.styles.height.value != len(rows):
            self.styles.height = len(rows)
        self.refresh_changed()

    def line(self, y: int, width: int) -> list[Segment]:
        look = look_of(self)
        label, pieces = self._rows[y]
        found, room = [Segment(f" {label:<{LABEL - 1}}", look.style("dim"))], width - LABEL - 1
        for text, style in pieces:
            text = crop(clean_spaces(text), room, more=look.glyph("ellipsis"))
            room -= len(text)
            found.append(Segment(text, look.style(style)))
        return found


def clean_spaces(text: str) -> str:
    """Cleaned, with the blanks before it kept."""
    bare = text.lstrip(" ")
    return " " * (len(text) - len(bare)) + clean(bare, 4000)
