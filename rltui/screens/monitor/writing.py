"""`w`: what is shown goes to a file of the user's state folder, and its path is said."""

from __future__ import annotations

from textual.widget import Widget

from rltui.places import state_folder
from rltui.screens.own_app import own_app


def write_text(widget: Widget, stem: str, text: str, suffix: str = ".txt") -> None:
    """Write a new private file and say where it is, or why it could not be written."""
    from rltui.terminal.private import write_private

    app = own_app(widget)
    try:
        path = write_private(state_folder() / "files", stem, text, suffix)
    except OSError as error:
        app.say(f"could not be written: {error.strerror or error}", "act")
        return
    app.did(f"write {path}")
    app.say(f"written to {path}", "good")
