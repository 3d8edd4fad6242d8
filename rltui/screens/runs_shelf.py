"""Pinning and archiving in Runs: what a person wants to see first, or no more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rltui.screens.base import AppScreen
from rltui.screens.own_app import own_app
from rltui.shelf import ARCHIVED, PINNED, ShelfFault, key_of

if TYPE_CHECKING:
    from rltui.sources.folder import RunRow


class Shelving(AppScreen):
    def here(self) -> RunRow | None:
        """The run under the cursor."""
        raise NotImplementedError

    def shelved(self) -> None:
        """The list changes."""
        raise NotImplementedError

    def action_pin(self) -> None:
        self._toggle(PINNED, "is pinned: it comes first", "is pinned no more")

    def action_archive(self) -> None:
        self._toggle(ARCHIVED, "is archived: / archived shows it again", "is back in the list")

    def _toggle(self, kind: str, on: str, off: str) -> None:
        row = self.here()
        if row is None:
            return
        try:
            told = on if own_app(self).shelf.toggle(kind, key_of(row)) else off
        except ShelfFault as fault:
            self.say(str(fault), "act")
            return
        self.say(f"{row.name} {told}")
        self.shelved()
