"""A short message on the right of the key bar: one at a time, gone after a few seconds or with the next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rich.style import Style

from rltui.look import Look
from rltui.text import clean
from rltui.text_lines import printable

Level = Literal["info", "good", "watch", "act"]
SECONDS = 5.0  # how long it stays


@dataclass(frozen=True, slots=True)
class Notice:
    """What happened, in one sentence. `act` is a failure, `watch` a warning, `good` a success."""

    text: str
    level: Level = "info"

    def shown(self, look: Look) -> tuple[str, Style]:
        """Its line and how it looks; the sign says the level where there is no colour."""
        sign = "" if self.level == "info" else f"{look.glyph(self.level)} "
        return sign + printable(clean(self.text, 400)), look.style(self.level)
