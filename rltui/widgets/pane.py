"""A box with a thin border: the title at its left, what it says now at its right, the accent while it has the focus."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.style import Style as RichStyle
from textual.color import Color
from textual.containers import Vertical
from textual.content import Content
from textual.geometry import Region
from textual.strip import Strip
from textual.style import Style
from textual.widget import Widget

from rltui.text import clean
from rltui.text_lines import printable
from rltui.widgets.lines import ASCII_SIGNS, look_of

if TYPE_CHECKING:
    from rltui.look import Look

_CORNERS = 6  # cells of the border's row that a title cannot have: two corners, a stroke and a space at each end
_TITLE_AT = 2  # cells from the inside's left edge to a title
_GAP = 2  # at least, between the title and what stands at the right


class Pane(Vertical):
    """Put the widgets inside as children. Texts are plain: nothing in them is markup."""

    ALLOW_MAXIMIZE = True
    DEFAULT_CSS = """
    Pane { width: 1fr; height: 1fr; border: round $foreground; overflow: hidden hidden; }
    """

    def __init__(self, *children: Widget, title: str = "", id: str | None = None, classes: str | None = None) -> None:
        super().__init__(*children, id=id, classes=classes)
        self._title: str | Content = title
        self._info: str | Content = ""
        self._subtitle: str | Content = ""
        self._worn: tuple[Look, bool] | None = None  # what the border was made for
        self._said: tuple[object, ...] = ()  # what the titles were made of

    def set_title(self, title: str | Content) -> None:
        """The name of the pane, in the border at the top left."""
        if title != self._title:
            self._title = title
            self._retitle()

    def set_info(self, info: str | Content) -> None:
        """What the pane says now (a last value, "3 of 310"), in the border at the top right; short."""
        if info != self._info:
            self._info = info
            self._retitle()

    def set_subtitle(self, subtitle: str | Content) -> None:
        """A place or a hint, in the border at the bottom right."""
        if subtitle != self._subtitle:
            self._subtitle = subtitle
            self._retitle(top=False)

    @property
    def zoomed(self) -> bool:
        """Whether the pane has the screen for itself."""
        return self.is_mounted and self.screen.maximized is self

    @zoomed.setter
    def zoomed(self, zoomed: bool) -> None:
        if zoomed and not self.zoomed:
            self.screen.maximize(self, container=False)
        elif not zoomed and self.zoomed:
            self.screen.minimize()

    def render_lines(self, crop: Region) -> list[Strip]:
        """As Textual does, after a look at whether anything of the border changed."""
        worn = (look_of(self), self.has_pseudo_class("focus-within"))
        if worn != self._worn:
            self._restyle(*worn)
        else:
            self._titles(*worn)
        return super().render_lines(crop)

    def on_mount(self) -> None:
        """The border's kind and titles are there at the first paint."""
        self._restyle(look_of(self), False)

    def on_resize(self) -> None:
        """What stands at the right moves with the border; a border that stays as it is is not drawn again."""
        before = (self._border_title, self._border_subtitle)
        self._titles(look_of(self), self.has_pseudo_class("focus-within"))
        if before != (self._border_title, self._border_subtitle):
            self._repaint_border(top=True)
            self._repaint_border(top=False)

    def on_descendant_focus(self) -> None:
        """The border says that keys go here."""
        self._restyle(look_of(self), True)

    def on_descendant_blur(self) -> None:
        """The border says that keys go elsewhere."""
        self._restyle(look_of(self), False)

    def _restyle(self, look: Look, focused: bool) -> None:
        self._worn = (look, focused)
        style = look.style("border_focus" if focused else "border")
        color = Color.from_rich_color(style.color) if style.color is not None else Color.parse("ansi_default")
        self.styles.border = (look.box, color)  # type: ignore[assignment]
        self._titles(look, focused)

    def _retitle(self, top: bool = True) -> None:
        if not self.is_attached:
            return  # `on_mount` comes
        focused = self.has_pseudo_class("focus-within")
        before = self._border_title
        self._titles(look_of(self), focused)
        self._repaint_border(top, _changed(before, self._border_title) if top else None)

    def _repaint_border(self, top: bool, cells: tuple[int, int] | None = None) -> None:
        """A row of the border, or those cells of its title."""
        # The framework's own title setter repaints the whole pane.
        first, last = (_TITLE_AT + cells[0], _TITLE_AT + cells[1]) if cells else (-1, self.outer_size.width - 1)
        # The last size that it was drawn with: of a pane that is hidden, `size` is nothing.
        self.refresh(Region(first, -1 if top else self.outer_size.height - 2, last - first, 1))

    def _titles(self, look: Look, focused: bool) -> None:
        said = (look, focused, self._title, self._info, self._subtitle, self.outer_size.width)
        if said == self._said:
            return
        self._said = said
        line, strong = look.style("border_focus" if focused else "border"), look.style("title")
        title = _content(self._title, strong)
        info = _content(self._info, look.style("dim"))
        subtitle = _content(self._subtitle, look.style("dim"))
        room = max(0, self.outer_size.width - _CORNERS)
        if info.cell_length and room > info.cell_length + _GAP + 4:
            title = title.truncate(room - info.cell_length - _GAP - 2, ellipsis=True)
            fill = look.glyph("hline") * (room - title.cell_length - info.cell_length - 2)
            title = Content.assemble(title, " ", (fill, Style.from_rich_style(line)), " ", info)
        # Cut here: the framework's own cut would leave an ellipsis that not every terminal can show.
        title, subtitle = (_shown(text.truncate(room, ellipsis=True), look) for text in (title, subtitle))
        self._border_title = title if title.cell_length else None
        self._border_subtitle = subtitle if subtitle.cell_length else None


def _changed(before: Content | None, after: Content | None) -> tuple[int, int] | None:
    """The cells [first, last) in which two titles of one length differ; None: all of the row may."""
    if before is None or after is None:
        return None
    if not len(before.plain) == len(after.plain) == before.cell_length == after.cell_length:
        return None
    both = zip(_cells(before), _cells(after), strict=True)
    places = [i for i, (old, new) in enumerate(both) if old != new]
    return (places[0], places[-1] + 1) if places else None


def _cells(text: Content) -> list[tuple[str, list[object]]]:
    """Each character with its styles."""
    return [(char, [s.style for s in text.spans if s.start <= i < s.end]) for i, char in enumerate(text.plain)]


def _content(text: str | Content, style: RichStyle) -> Content:
    if isinstance(text, Content):
        return text
    return Content.styled(printable(clean(text)), Style.from_rich_style(style))


def _shown(text: Content, look: Look) -> Content:
    return Content(text.plain.translate(ASCII_SIGNS), list(text.spans)) if look.ascii else text
