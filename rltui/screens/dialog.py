"""A screen over the screen. Keys may come faster than it opens or closes: it is made ready once, dismissed once."""

from __future__ import annotations

from textual.await_complete import AwaitComplete
from textual.binding import BindingsMap
from textual.screen import ModalScreen, Screen, ScreenResultType
from textual.widget import Widget
from textual.widgets import Input, TextArea

from rltui.widgets.bindings import one_binding
from rltui.widgets.key_bar import KeyBar


class Dialog(ModalScreen[ScreenResultType], inherit_bindings=False):
    """Override `opened` instead of `on_mount`, and dismiss as with any screen."""

    _left = False

    def __init__(self) -> None:
        super().__init__()
        # Not in BINDINGS: every dialog takes none of those that it inherits.
        self._bindings = BindingsMap.merge([BindingsMap(one_binding("app.help")), self._bindings])

    def on_mount(self) -> None:
        """Nothing is to be made ready where the app leaves, or the dialog was dismissed, before it was drawn."""
        if self.is_attached and not self._left and all(child.is_attached for child in self.query("*")):
            self.bindings_updated_signal.subscribe(self, self._keys_changed)
            self.opened()

    def on_unmount(self) -> None:
        """The keys of what is below work again."""
        self._keys_changed()

    def _keys_changed(self, screen: Screen | None = None) -> None:
        """The last line, which is the covered screen's, has the keys of the dialog."""
        frame = getattr(self.app, "frame", None)
        if frame is not None and frame.is_attached:
            for bar in frame.query(KeyBar):
                bar.update_keys()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Where a text is typed, a key of the help is a sign of it."""
        return not (action == "help" and isinstance(self.focused, Input | TextArea)) and super().check_action(
            action, parameters
        )

    async def action_help(self) -> None:
        """The keys of the dialog."""
        from rltui.screens.help import HelpScreen, help_sections

        if not isinstance(self, HelpScreen):
            await self.app.push_screen(HelpScreen(help_sections(self)))

    def opened(self) -> None:
        """Its widgets are there: size them, give one the focus."""

    def dismiss(self, result: ScreenResultType | None = None) -> AwaitComplete:
        """The first answer counts. What is typed until the dialog is gone answers nothing any more."""
        if self._left or not self.is_active:
            return AwaitComplete.nothing()
        self._left = True
        return super().dismiss(result)


def answer(widget: Widget, result: object = None) -> None:
    """Dismiss the dialog that `widget` is in, if it is still there."""
    if widget.is_attached:
        widget.screen.dismiss(result)
