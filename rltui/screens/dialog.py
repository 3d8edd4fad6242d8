"""A screen over the screen. Keys may come faster than it opens or closes: it is made ready once, dismissed once."""

from __future__ import annotations

from textual.await_complete import AwaitComplete
from textual.screen import ModalScreen, ScreenResultType
from textual.widget import Widget


class Dialog(ModalScreen[ScreenResultType], inherit_bindings=False):
    """Override `opened` instead of `on_mount`, and dismiss as with any screen."""

    _left = False

    def on_mount(self) -> None:
        """Nothing is to be made ready where the app leaves, or the dialog was dismissed, before it was drawn."""
        if self.is_attached and not self._left and all(child.is_attached for child in self.query("*")):
            self.opened()

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
