"""The first line of a screen: which screens there are, which is shown, and the open run with its state."""

from __future__ import annotations

from rich.cells import cell_len
from rich.style import Style

from rltui.actions.contexts import PLACES, Place
from rltui.actions.keymap import Keymap
from rltui.actions.keynames import shown
from rltui.look import Look
from rltui.text import clean
from rltui.text_lines import crop, printable
from rltui.widgets.bar import Bar, Part
from rltui.widgets.bindings import keymap_of
from rltui.widgets.lines import look_of

LEAST_NAME = 12  # cells that a run's name gets before the names of screens go
MOST_NAME = 60


class Header(Bar):
    """`place`: the name of the screen that it stands on, such as "runs"."""

    def __init__(self, place: str, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._place = place
        self._name = self._state = ""

    def set_run(self, name: str, state: str = "") -> None:
        """The run that is open, and its state in the word of its status file; "" for none."""
        self._name, self._state = printable(clean(name, 200)), clean(state, 20)
        self.update_bar()

    def base_style(self) -> Style:
        """The header's own background."""
        return look_of(self).style("header")

    def parts(self, width: int) -> list[Part]:
        """Screens and run; when there is little room all screens but the one that is shown shrink to their key."""
        look, keymap = look_of(self), keymap_of(self.app)
        right = self._run(look)
        need = min(_cells(right), LEAST_NAME + len(self._state) + 4) if right else 0
        for named in (True, False):
            left = self._screens(look, keymap, named)
            if _cells(left) + need < width:  # the last cell stays free
                break
        return left + self._run(look, width - 1 - _cells(left))

    def _screens(self, look: Look, keymap: Keymap, named: bool) -> list[Part]:
        """`named`: every screen by its name, else only this one."""
        parts: list[Part] = [(f" rltui {look.glyph('sep')}", Style())]
        for place in PLACES:
            here = place.name == self._place
            text = self._screen_text(place, keymap, named or here, look.ascii)
            if not text:
                continue
            style = look.style("header_active") if here else Style()
            parts.append((f"[{text}]" if here else f" {text} ", style))
        return parts

    @staticmethod
    def _screen_text(place: Place, keymap: Keymap, named: bool, ascii: bool) -> str:
        keys = keymap.of(f"app.{place.name}")
        key = shown(keys[0], ascii=ascii) if keys else ""
        return f"{key} {place.title}".strip() if named else key

    def _run(self, look: Look, cells: int | None = None) -> list[Part]:
        if not self._name:
            return []
        before = f"{look.glyph('sep')} "
        glyph, style = look.state(self._state) if self._state else ("", Style())
        after = f"  {glyph} {self._state.upper()}" if self._state else ""
        room = MOST_NAME if cells is None else min(MOST_NAME, cells - cell_len(before) - cell_len(after))
        if room < 1:
            return [(f"{look.glyph('sep')}{after[1:]}", style)] if cells and cell_len(after) <= cells else []
        name = crop(self._name, room, more=look.glyph("ellipsis"))
        return [(before, Style()), (name, look.style("strong")), (after, style)]


def _cells(parts: list[Part]) -> int:
    return sum(cell_len(text) for text, _ in parts)
