"""What can be opened or begun with: as the screen without a config, and as a dialog over one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar

from rich.segment import Segment
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType

from rltui.screens.config.fields import safe
from rltui.screens.dialog import Dialog
from rltui.text_lines import crop, pad
from rltui.widgets.bindings import bindings
from rltui.widgets.lines import focus_now
from rltui.widgets.pane import Pane
from rltui.widgets.virtual_list import VirtualList

if TYPE_CHECKING:
    from rltui.look import Look
    from rltui.model.form_starts import Start

KIND, NAME = 8, 26  # cells
Wanted = Callable[["Start"], bool]


class StartRows:
    def __init__(self, starts: Sequence[Start] = ()) -> None:
        self.starts = list(starts)

    def __len__(self) -> int:
        return len(self.starts)

    def cells(self, i: int, width: int, look: Look) -> list[Segment]:
        start, more = self.starts[i], look.glyph("ellipsis")
        name = min(NAME, max(12, width // 2))
        room = width - KIND - name - 4
        return [
            Segment(f" {start.kind:<{KIND}}", look.style("watch" if start.kind == "draft" else "dim")),
            Segment(pad(crop(safe(start.name), name, more=more), name), look.style("strong")),
            Segment(f"  {crop(safe(start.about, 300), room, more=more)}", look.style("dim")),
        ]


class StartsScreen(Dialog["Start | None"], inherit_bindings=False):
    """Dismissed with what was chosen, None for escape."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("starts")
    DEFAULT_CSS = """
    StartsScreen { align: center middle; background: transparent; }
    StartsScreen > Pane { width: 110; max-width: 96%; background: $background; }
    """

    def __init__(self, title: str, starts: Sequence[Start]) -> None:
        super().__init__()
        self._title = title
        self._rows = StartRows(starts)
        self._list = VirtualList()

    def compose(self) -> ComposeResult:
        """One list."""
        yield Pane(self._list, title=self._title)

    def opened(self) -> None:
        """The first has the cursor."""
        pane = self.query_one(Pane)
        self._list.set_rows(self._rows)
        pane.set_subtitle("enter takes it, esc leaves")
        pane.styles.height = min(len(self._rows) + 2, max(8, self.app.size.height - 4))
        focus_now(self._list)

    @on(VirtualList.Selected)
    def _selected(self, event: VirtualList.Selected) -> None:
        event.stop()
        self.dismiss(self._rows.starts[event.index])

    def action_close(self) -> None:
        """Leave."""
        self.dismiss(None)
