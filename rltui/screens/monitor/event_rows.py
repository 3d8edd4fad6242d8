"""The last events of a run, a line each. What comes every step shows in the charts and is left out."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.segment import Segment

from rltui.model.event_view import Event, told
from rltui.model.progress import epoch
from rltui.text import clean, fit

if TYPE_CHECKING:
    from rltui.look.look import Look

LEVELS = {"warning": "watch", "error": "act"}


class EventRows:
    """Row source of a list, oldest first."""

    def __init__(self) -> None:
        self._seen: Sequence[Event] = ()
        self._rows: list[Event] = []

    def update(self, events: Sequence[Event]) -> None:
        if events is self._seen:
            return
        self._seen = events
        self._rows = told(events)

    def __len__(self) -> int:
        return len(self._rows)

    def key(self, i: int) -> Any:
        return self._rows[i].get("seq")

    def event(self, i: int) -> Event:
        return self._rows[i]

    def cells(self, i: int, width: int, look: Look) -> list[Segment]:
        event = self._rows[i]
        at = epoch(event.get("created_at"))
        clock = time.strftime("%H:%M:%S", time.localtime(at)) if at is not None else "        "
        level = LEVELS.get(str(event.get("level")), "")
        sign = look.glyph(level) if level else " "
        text = fit(clean(event.get("message") or event.get("type"), 400), max(0, width - 12))
        return [
            Segment(f" {clock} ", look.style("dim")),
            Segment(f"{sign} ", look.style(level or "text")),
            Segment(text, look.style(level or "text")),
        ]
