"""The least that the framework can show: what every time of ours is set against.

It takes the arguments that `rltui` takes, and ignores them.
"""

from __future__ import annotations

from textual.app import App, ComposeResult
from textual.widgets import Static


class BareApp(App[None]):
    def compose(self) -> ComposeResult:
        yield Static("bare", markup=False)


if __name__ == "__main__":
    BareApp().run()
