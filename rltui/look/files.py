"""Where themes come from: the shipped ones and the user's, which win by name. Saved files are noticed by `changed`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from rltui.data import data_dir
from rltui.look.theme import Theme, ThemeError, read_theme
from rltui.places import config_folder


def user_themes(env: Mapping[str, str] = os.environ) -> Path:
    """`$XDG_CONFIG_HOME/rltui/themes`; whether it exists or not."""
    return config_folder(env) / "themes"


class ThemeFiles:
    """Themes by name, in two folders.

    A file that turns bad keeps the theme that was loaded from it: `load` raises, and the caller goes on with the old.
    """

    def __init__(self, user: Path | None = None, shipped: Path | None = None):
        self.user = user_themes() if user is None else user
        self.shipped = data_dir("themes") if shipped is None else shipped
        self._loaded: tuple[str, tuple[str, int, int, int] | None] | None = None

    def list(self) -> dict[str, Path]:
        """The file of each theme, by name."""
        found = {path.stem: path for folder in (self.shipped, self.user) for path in folder.glob("*.toml")}
        return dict(sorted(found.items()))

    def load(self, name: str) -> Theme:
        """Raises ThemeError for an unknown name and for a file with problems. `changed` then watches this theme."""
        path = self._path(name)
        self._loaded = name, _stamp(path)
        if path is None:
            known = ", ".join(self.list()) or f"none in {self.shipped}"
            raise ThemeError(name, [(1, "", f"there is no theme of this name; there are: {known}")])
        return read_theme(path)

    def changed(self) -> bool:
        """Whether the file of the theme that was asked for last is another than it was then. Costs two stats."""
        if self._loaded is None:
            return False
        name, stamp = self._loaded
        return _stamp(self._path(name)) != stamp

    def _path(self, name: str) -> Path | None:
        if Path(name).name != name:  # a path, not a name
            return None
        for folder in (self.user, self.shipped):
            if (path := folder / f"{name}.toml").is_file():
                return path
        return None


def _stamp(path: Path | None) -> tuple[str, int, int, int] | None:
    if path is None:
        return None
    try:
        stat = path.stat()
    except OSError:
        return None
    return str(path), stat.st_ino, stat.st_mtime_ns, stat.st_size
