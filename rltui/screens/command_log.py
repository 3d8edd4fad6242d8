"""The command log: what the interface did, as a command that can be copied and run without it."""

from __future__ import annotations

import time
from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from textual.app import ComposeResult
from textual.binding import BindingType

from rltui.actions.log import CommandLog
from rltui.look import Look
from rltui.screens.dialog import Dialog
from rltui.text_lines import crop, printable
from rltui.widgets.bindings import bindings
from rltui.widgets.lines import focus_now
from rltui.widgets.pane import Pane
from rltui.widgets.virtual_list import VirtualList


class _Rows:
    def __init__(self, log: CommandLog) -> None:
        self.first = log.first
        self.rows = log.rows()

    def __len__(self) -> int:
        return len(self.rows)

    def cells(self, i: int, width: int, look: Look) -> list[Segment]:
        did, more = self.rows[i], look.glyph("ellipsis")
        at = time.strftime("%H:%M:%S", time.localtime(did.at))
        answer = crop(printable(did.answer), max(0, width // 3), more=more)
        room = width - len(at) - 4 - (cell_len(answer) + 2 if answer else 0)
        return [
            Segment(f" {at}  ", look.style("dim")),
            Segment(crop(printable(did.command), room, more=more), look.style("text")),
            Segment(f"  {answer}" if answer else "", look.style("dim")),
        ]

    def key(self, i: int) -> int:
        """The number of the line since the start, which stays its own."""
        return self.first + i


class CommandLogScreen(Dialog[None], inherit_bindings=False):
    """Shows `log` as it is now; newest last, with the cursor on it."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("log")
    DEFAULT_CSS = """
    CommandLogScreen { align: center middle; background: transparent; }
    CommandLogScreen > Pane { width: 90%; height: 80%; background: $background; }
    """

    def __init__(self, log: CommandLog) -> None:
        super().__init__()
        self._rows = _Rows(log)
        self._list = VirtualList()

    def compose(self) -> ComposeResult:
        """One list."""
        yield Pane(self._list, title="Command log")

    def opened(self) -> None:
        """The newest line has the cursor."""
        count, pane = len(self._rows), self.query_one(Pane)
        self._list.set_rows(self._rows, cursor=max(0, count - 1))
        lost = f", {self._rows.first} older ones are gone" if self._rows.first else ""
        pane.set_info(f"{count} command{'' if count == 1 else 's'}{lost}" if count else "nothing was done yet")
        pane.set_subtitle("y copy   esc close")
        focus_now(self._list)

    def action_copy(self) -> None:
        """The command under the cursor, whole."""
        copy = getattr(self.app, "copy", None)
        if copy is not None and len(self._rows):
            copy(self._rows.rows[self._list.cursor].command)

    def action_close(self) -> None:
        """Leave."""
        self.dismiss(None)
