"""`;`: a letter on each pane; typing it puts the focus there, any other key leaves."""

from __future__ import annotations

import string
from collections.abc import Sequence

from textual import events
from textual.app import ComposeResult

from rltui.screens.dialog import Dialog
from rltui.widgets.bar import Bar, Part
from rltui.widgets.lines import look_of
from rltui.widgets.pane import Pane


class Letter(Bar):
    """Stands in the border of a pane."""

    DEFAULT_CSS = "Letter { position: absolute; width: 3; height: 1; }"

    def __init__(self, letter: str) -> None:
        super().__init__()
        self._letter = letter

    def parts(self, width: int) -> list[Part]:
        return [(f" {self._letter} ", look_of(self).style("match"))]


class JumpScreen(Dialog["Pane | None"], inherit_bindings=False):
    """Dismissed with the pane that was chosen."""

    DEFAULT_CSS = "JumpScreen { background: transparent; }"

    def __init__(self, panes: Sequence[Pane]) -> None:
        super().__init__()
        self._panes = dict(zip(string.ascii_lowercase, panes, strict=False))

    def compose(self) -> ComposeResult:
        for letter, pane in self._panes.items():
            mark = Letter(letter)
            mark.styles.offset = (pane.region.x + 2, pane.region.y)
            yield mark

    def on_key(self, event: events.Key) -> None:
        event.stop()
        self.dismiss(self._panes.get(event.character or ""))
