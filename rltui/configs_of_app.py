"""What the app does with configs: which one is in hand, and the screens that it goes to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from textual.screen import Screen

    from rltui.screens.config.screen import ConfigScreen
    from rltui.screens.launch.screen import LaunchScreen


class ConfigsOfApp:
    """A part of the app."""

    config_path: Path | None = None  # the config that was opened or saved last

    if TYPE_CHECKING:  # the app's own
        _installed_screens: dict[str, Any]

        def go(self, name: str) -> None: ...

        def get_screen(self, name: str) -> Screen[Any]: ...

        def _screen(self, name: str) -> Screen[None]: ...

    def edit_config(self, path: Path, key: str | None = None) -> None:
        """Edit a config, with the cursor on `key`."""
        self._show_config(self._config().open(path, key or ""))

    def copy_config(self, run: str | None = None, key: str = "", *, back: str = "") -> None:
        """Begin a config with that of a run, with the cursor on `key`, else with what is chosen. `back`: the screen
        that escape leads to."""
        if run is None:
            self._config().begin_anew()
            self._show_config(True)
        else:
            self._show_config(self._config().copy_of_run(run, key), back)

    def _show_config(self, there: bool, back: str = "") -> None:
        """Go to the editor once what is to be edited is there: keys must not reach the config that was open before."""
        screen = self._config()
        if there or screen.form is None:
            self.go("config")
            screen.back = back
        else:
            screen.arrives = back

    @property
    def config_screen(self) -> ConfigScreen | None:
        """The editor, if it was opened."""
        return self._config() if "config" in self._installed_screens else None

    def show_field(self, key: str) -> None:
        """Show a field of the config that is open."""
        self.go("config")
        self._config().go_to(key)

    def _config(self) -> ConfigScreen:
        return cast("ConfigScreen", self._screen("config"))

    def launch_config(self, path: Path) -> None:
        """Look at what a run of this config needs."""
        self.config_path = path.absolute()
        self.go("launch")
        cast("LaunchScreen", self.get_screen("launch")).look()  # it may be shown already
