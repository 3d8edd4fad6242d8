"""A run as it was: the model that moves in time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import isfinite
from typing import TYPE_CHECKING

from rltui.model.run import Change, RunModel

if TYPE_CHECKING:
    from rltui.sources.past import PastSource

MOVED = "logs"  # what a change of the time names besides: logs are read anew


class PastModel(RunModel):
    """`wanted` gives the time to show, which each refresh goes to."""

    def __init__(self, source: PastSource, wanted: Callable[[], float]) -> None:
        self._past, self._wanted = source, wanted
        super().__init__(source)

    @property
    def live(self) -> bool:
        """Nothing comes by itself."""
        return False

    def now(self) -> float:
        return self._past.at if isfinite(self._past.at) else super().now()

    def refresh(self, budget_s: float = 0.05) -> Change:
        wanted = self._wanted()
        moved = wanted != self._past.at or not self.asked
        self._past.at = wanted
        change = super().refresh(budget_s)
        return replace(change, what=change.what | {MOVED}) if moved else change
