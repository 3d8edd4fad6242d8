"""Two configs: a unified diff of their lines, or the values that differ side by side; with something to agree to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType

from rltui.screens.config.fields import safe
from rltui.screens.dialog import Dialog
from rltui.text_lines import crop, pad, printable
from rltui.widgets.bindings import bindings
from rltui.widgets.lines import focus_now
from rltui.widgets.pane import Pane
from rltui.widgets.virtual_list import VirtualList

if TYPE_CHECKING:
    from rltui.look import Look
    from rltui.model.form_diff import Side

NAMES = 2  # lines of a unified diff that name the two sides
MOST_CHARS = 400  # of a line


@dataclass(frozen=True)
class Compared:
    """What is shown. `sides`: asked for when they are wanted, in a thread."""

    left: str
    right: str
    lines: Sequence[str]
    sides: Callable[[], list[Side]] | None = None


class _DiffRows:
    """Lines of a unified diff."""

    def __init__(self, lines: Sequence[str], intro: Sequence[tuple[str, str]]) -> None:
        self.intro, self.lines = intro, lines

    def __len__(self) -> int:
        return len(self.intro) + len(self.lines)

    def cells(self, i: int, width: int, look: Look) -> list[Segment]:
        more = look.glyph("ellipsis")
        if i < len(self.intro):
            text, style = self.intro[i]
            return [Segment(f" {crop(safe(text, MOST_CHARS), width - 2, more=more)}", look.style(style))]
        i -= len(self.intro)
        line = self.lines[i]
        style = {"+": "good", "-": "act", "@": "accent"}.get(line[:1], "dim") if i >= NAMES else "strong"
        text = crop(printable(line[:MOST_CHARS]), width - 2, more=more)
        return [Segment(f" {text}", look.style(style))]


class _SideRows:
    """A key with its two values."""

    def __init__(self, sides: Sequence[Side], left: str, right: str) -> None:
        self.sides, self.left, self.right = sides, left, right
        self.key_cells = max((cell_len(side.key) for side in sides), default=3)

    def __len__(self) -> int:
        return len(self.sides) + 1

    def cells(self, i: int, width: int, look: Look) -> list[Segment]:
        more = look.glyph("ellipsis")
        key = min(self.key_cells, max(12, width * 2 // 5))
        room = max(6, (width - key - 6) // 2)
        if i == 0:
            names = (pad(crop(safe(name), room, more=more), room) for name in (self.left, self.right))
            return [Segment(f" {pad('', key)}  {'  '.join(names)}", look.style("strong"))]
        side = self.sides[i - 1]
        shown = [crop(safe("not there" if text is None else text), room, more=more) for text in side[1:]]
        styles = ["dim" if text is None else style for text, style in zip(side[1:], ("act", "good"), strict=True)]
        return [
            Segment(f" {pad(crop(safe(side.key), key, more=more), key)}", look.style("text")),
            *(Segment(f"  {pad(text, room)}", look.style(style)) for text, style in zip(shown, styles, strict=True)),
        ]


class DiffScreen(Dialog[bool], inherit_bindings=False):
    """Dismissed with True where `question` was agreed to; without a question there is nothing to agree to."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("diff")
    DEFAULT_CSS = """
    DiffScreen { align: center middle; background: transparent; }
    DiffScreen > Pane { width: 94%; max-width: 140; background: $background; }
    """

    def __init__(
        self, title: str, compared: Compared, *, question: str = "", intro: Sequence[tuple[str, str]] = ()
    ) -> None:
        super().__init__()
        self._title, self._compared, self._question, self._intro = title, compared, question, list(intro)
        self._list = VirtualList()
        self._side_by_side = False

    def compose(self) -> ComposeResult:
        """One list."""
        yield Pane(self._list, title=self._title)

    def opened(self) -> None:
        """As a diff first."""
        self._show_lines()
        pane = self.query_one(Pane)
        view = ", v values side by side" if self._compared.sides is not None else ""
        agree = f"enter {self._question}, esc changes nothing" if self._question else "esc close"
        pane.set_subtitle(f"{agree}{view}, y copy")
        pane.styles.height = min(max(len(self._list.rows) + 2, 6), max(6, self.app.size.height - 4))
        focus_now(self._list)

    def _show_lines(self) -> None:
        lines = list(self._compared.lines)
        added = sum(line.startswith("+") for line in lines[NAMES:])
        gone = sum(line.startswith("-") for line in lines[NAMES:])
        self.query_one(Pane).set_info(f"+{added} -{gone}" if lines else "no difference")
        intro = self._intro if lines else [*self._intro, ("The two are the same.", "text")]
        self._list.set_rows(_DiffRows(lines, intro))

    def action_view(self) -> None:
        """The other way to show it."""
        if self._compared.sides is None:
            return
        self._side_by_side = not self._side_by_side
        if self._side_by_side:
            sides = self._compared.sides()
            self.query_one(Pane).set_info(
                f"{len(sides)} value{'s' * (len(sides) != 1)} differ{'s' * (len(sides) == 1)}"
            )
            self._list.set_rows(_SideRows(sides, self._compared.left, self._compared.right))
        else:
            self._show_lines()
        self.query_one(Pane).styles.height = min(max(len(self._list.rows) + 2, 6), max(6, self.app.size.height - 4))

    @on(VirtualList.Selected)
    def _entered(self, event: VirtualList.Selected) -> None:
        event.stop()
        self.action_accept()

    def action_accept(self) -> None:
        """Agree, where something is asked."""
        if self._question:
            self.dismiss(True)

    def action_copy(self) -> None:
        """The whole diff."""
        copy = getattr(self.app, "copy", None)
        if copy is not None:
            copy("\n".join(self._compared.lines), "diff")

    def action_close(self) -> None:
        """Leave."""
        self.dismiss(False)
