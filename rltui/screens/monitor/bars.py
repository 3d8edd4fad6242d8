"""The lines above the tabs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual import events

from rltui.actions.keynames import shown
from rltui.model.progress import freshness, progress
from rltui.text import clean, fit, width
from rltui.text_lines import crop, printable
from rltui.widgets.bar import Bar, Part
from rltui.widgets.bindings import keymap_of
from rltui.widgets.lines import look_of
from rltui.words import amount

if TYPE_CHECKING:
    from rltui.model.run import RunModel

# (name, title); those not in BUILT are shown dim
TABS = (
    ("overview", "Overview"),
    ("metrics", "Metrics"),
    ("rollouts", "Rollouts"),
    ("judge", "Judge"),
    ("pipeline", "Pipeline"),
    ("logs", "Logs"),
)
BUILT = ("overview", "metrics", "rollouts", "judge", "pipeline", "logs")


class TabBar(Bar):
    """The tabs with their keys, and on the right how fresh what they show is."""

    def __init__(self, period_s: float) -> None:
        super().__init__()
        self._period_s = period_s
        self._tab = ""
        self._model: RunModel | None = None
        self._lost = ""
        self._unread = 0  # lines of the logs

    def show_unread(self, count: int) -> None:
        self._unread = count
        self.update_bar()

    def show(self, tab: str) -> None:
        self._tab = tab
        self.update_bar()

    def follow(self, model: RunModel | None, lost: str = "") -> None:
        """`lost`: why the run cannot be read at all."""
        self._model, self._lost = model, lost
        self.update_bar()

    def parts(self, width: int) -> list[Part]:
        look = look_of(self)
        right, style_name = self._freshness()
        parts: list[Part] = [(" ", look.style("text"))]
        for name, text in self._names(width):
            style = "header_active" if name == self._tab else "text" if name in BUILT else "dim"
            parts.append((text, look.style(style)))
        used = sum(_cells(text) for text, _ in parts)
        right = crop(printable(right), width - used - 2, more=look.glyph("ellipsis"))
        room = width - used - _cells(right) - 1
        if not right:
            return parts
        return [*parts, (" " * room, look.style("text")), (right, look.style(style_name))]

    async def on_click(self, event: events.Click) -> None:
        """A click on a tab shows it."""
        at = 1
        for name, text in self._names(self.size.width):
            if at <= event.x < at + _cells(text):
                await self.screen.run_action(f"screen.{name}")
                return
            at += _cells(text)

    def _names(self, width: int) -> list[tuple[str, str]]:
        """Each tab and how it is written; its key alone where there is no room."""
        keymap, ascii = keymap_of(self.app), look_of(self).ascii
        # Bad news has the room.
        named = width >= (72 if self._freshness()[1] == "dim" else 100)
        found = []
        for name, title in TABS:
            keys = keymap.of(f"monitor.{name}")
            key = shown(keys[0], ascii=ascii) if keys else ""
            here = name == self._tab
            text = f"{key} {title}" if named or here else key
            if name == "logs" and self._unread and not here:
                text += f" {amount(self._unread)}" if named and width >= 100 else "+"
            found.append((name, f"[{text}]" if here else f" {text} "))
        return found

    def _freshness(self) -> tuple[str, str]:
        if self._lost:
            return self._lost, "watch"
        if self._model is None:
            return "reading the run", "dim"
        return freshness(self._model.live, self._model.age(), self._model.error, self._period_s)


class ProgressBar(Bar):
    """Where the run is."""

    def __init__(self) -> None:
        super().__init__()
        self._model: RunModel | None = None
        self._lost = ""

    def follow(self, model: RunModel | None, lost: str = "") -> None:
        """`lost`: why the run cannot be read at all."""
        self._model, self._lost = model, lost
        self.update_bar()

    def parts(self, width: int) -> list[Part]:
        model, look = self._model, look_of(self)
        if model is None or model.status is None:
            why = self._lost or (model.error if model is not None else None)
            if why:
                return [(f" {fit(f'It cannot be read: {clean(why, 400)}', width - 2)}", look.style("watch"))]
        if model is None:
            return []
        if not model.asked:
            return [(" reading the run", look.style("dim"))]
        return progress(model.status, look, width, model.now())


def _cells(text: str) -> int:
    return width(text)
