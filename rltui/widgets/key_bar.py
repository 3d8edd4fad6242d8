"""The last line of a screen: the keys that work now, and on the right what just happened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from textual.screen import Screen
from textual.timer import Timer

from rltui.actions.keynames import shown
from rltui.look import Look
from rltui.text_lines import crop
from rltui.widgets.bar import Bar, Part
from rltui.widgets.bindings import Offer, offered
from rltui.widgets.lines import look_of
from rltui.widgets.notice import SECONDS, Level, Notice

GAP = 2  # cells between two keys
LAST = "app.help"  # always there, and at the end


@dataclass(frozen=True, slots=True)
class Item:
    """One place of the key bar: `key` and what it does."""

    key: str
    label: str

    @property
    def cells(self) -> int:
        return cell_len(self.key) + 1 + cell_len(self.label)


def items_of(offers: Sequence[Offer], *, ascii: bool = False) -> list[Item]:
    """What a key bar would like to show, most important first but the help, which is the last.

    What every screen has goes before the help: a person knows it soonest. In the past its keys go first: to move in
    time is what one is there for.
    """
    by_place = {(offer.action.id, offer.node): offer for offer in offers}
    first, items, common, last = list[Item](), list[Item](), list[Item](), list[Item]()
    for offer in offers:
        action = offer.action
        if not action.footer:
            continue
        keys = [offer.keys[0]]
        partner = by_place.get((f"{action.context}.{action.pair}", offer.node)) if action.pair else None
        if partner is not None:
            keys.append(partner.keys[0])
        item = Item("/".join(shown(key, ascii=ascii) for key in keys), action.label)
        place = last if action.id == LAST else common if action.context == "screen" else items
        (first if action.context == "past" else place).append(item)
    return first + items + common + last


def packed(items: Sequence[Item], cells: int) -> list[Item]:
    """The items that fit whole into `cells`: the last one before all others, then in order to the first that
    does not fit. None is ever cut."""
    if not items or items[-1].cells > cells:
        return []
    left = cells - items[-1].cells
    kept = []
    for item in items[:-1]:
        left -= item.cells + GAP
        if left < 0:
            break
        kept.append(item)
    return [*kept, items[-1]]


class KeyBar(Bar):
    """Keys on the left; a notice, else the screen's status (age of the data, state of a request) on the right."""

    def __init__(self, *, name: str | None = None, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(name=name, id=id, classes=classes)
        self._items: list[Item] = []
        self._notice: Notice | None = None
        self._status: Notice | None = None
        self._timer: Timer | None = None

    @property
    def items(self) -> list[Item]:
        """What it would show if it were wide enough."""
        return list(self._items)

    def notice(self, text: str, level: Level = "info") -> None:
        """Show `text` for some seconds, or until the next."""
        self._notice = Notice(text, level) if text else None
        if self._timer is not None:
            self._timer.stop()
        self._timer = self.set_timer(SECONDS, self.clear_notice)
        self.update_bar()

    def clear_notice(self) -> None:
        """Take the notice away, if there is one."""
        self._notice = None
        self.update_bar()

    def status(self, text: str, level: Level = "info") -> None:
        """What stands on the right while there is no notice; "" for nothing."""
        self._status = Notice(text, level) if text else None
        self.update_bar()

    def parts(self, width: int) -> list[Part]:
        """Keys, as many as fit whole, and the notice."""
        look = look_of(self)
        right = self._right(look, width)
        used = sum(cell_len(text) for text, _ in right)
        parts: list[Part] = []
        for item in packed(self._items, width - 1 - (used + GAP if used else 1)):
            gap = " " * GAP if parts else " "
            parts += [(gap, look.style("text")), (item.key, look.style("key"))]
            parts.append((f" {item.label}", look.style("key_label")))
        left = sum(cell_len(text) for text, _ in parts)
        return [*parts, (" " * max(0, width - left - used), look.style("text")), *right] if right else parts

    def _right(self, look: Look, width: int) -> list[Part]:
        message = self._notice or self._status
        if message is None or width < 8:
            return []
        text, style = message.shown(look)
        last = self._items[-1].cells if self._items else 0
        room = width - last - GAP - 2  # the help's key stays
        text = crop(text, room, more=look.glyph("ellipsis"))
        return [(text, style), (" ", look.style("text"))] if text else []

    # Keeping up with what works

    def on_mount(self) -> None:
        """Follow the focus."""
        self.screen.bindings_updated_signal.subscribe(self, self._bindings_changed)
        self.update_keys()

    def on_unmount(self) -> None:
        """Let go of the screen."""
        self.screen.bindings_updated_signal.unsubscribe(self)

    def _bindings_changed(self, screen: Screen) -> None:
        if screen is self.screen and screen.is_current:
            self.update_keys()

    def update_keys(self) -> None:
        """Look again at what works, in a dialog where one is open; the framework tells of the focus, screens tell of
        anything else."""
        top = self.app.screen
        items = items_of(offered(top if top.is_modal else self.screen), ascii=look_of(self).ascii)
        if items != self._items:
            self._items = items
            self.update_bar()
