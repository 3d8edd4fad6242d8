"""What became of each episode after it ended, by number: advantage, ratio, clip, lag, the step, why it was left out.

Some 30 bytes an episode, filled by the thread that reads; anyone may look while it grows.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from rltui.sources.base import Json, RunSource

CLIPS = ("none", "low", "high")
_NUMBERS = ("adv", "s", "lag", "used")
_NUMBER = (int, float)  # and no bool


class Fates:
    """By number of the episode; `refresh` takes in what was written since."""

    def __init__(self, source: RunSource) -> None:
        self._source = source
        self._cursor: Any = None
        self._columns = {name: array("d") for name in _NUMBERS}
        self._clip = array("b")
        self._codes: list[str | None] = [None]
        self._excl = array("h")
        self._lows: list[int] = []  # of each slice taken: the lowest n that it told of

    def refresh(self) -> Iterator[int]:
        """Take in what is new, a slice at a time; gives the version. Unreadable."""
        while True:
            part = self._source.update_lines(self._cursor)
            self._cursor = part.cursor
            anew = part.rewind is not None
            if anew:  # they come again from the start: what no longer counts is not among them
                self._clear()
                part = self._source.update_lines(None)
                self._cursor = part.cursor
            low = self._take(part.rows)
            if part.rows or anew:
                self._lows.append(0 if anew else low)
                yield self.version
            if not part.more:
                return

    @property
    def version(self) -> int:
        """Rises with what is taken in."""
        return len(self._lows)

    def low_since(self, version: int) -> int | None:
        """The lowest n that was told of since; None: nothing was."""
        return min(self._lows[version:], default=None)

    def over(self, row: Json) -> Json:
        """An index row with what became known of it later."""
        n = row.get("n")
        if type(n) is not int or not 0 <= n < len(self._clip):
            return row
        found = dict(row)
        for name in _NUMBERS:
            value = self._columns[name][n]
            if not math.isnan(value):
                found[name] = value if name in ("adv", "s") else int(value)
        if self._clip[n] >= 0:
            found["clip"] = CLIPS[self._clip[n]]
        if self._excl[n] and not row.get("excl"):
            found["excl"] = self._codes[self._excl[n]]
        return found

    def _clear(self) -> None:
        for column in self._columns.values():
            del column[:]
        del self._clip[:], self._excl[:]

    def _take(self, lines: list[Json]) -> int:
        """The lowest n among them; 0 where none has one."""
        lines = [line for line in lines if type(line.get("n")) is int and 0 <= line["n"] < 1 << 31]
        adv, s, lag, used = (self._columns[name] for name in _NUMBERS)
        value: Any
        for line in lines:
            n, get = line["n"], line.get
            if n >= len(self._clip) and not self._grow(n + 1):
                continue
            with suppress(OverflowError):  # a number that no float holds
                if type(value := get("adv")) in _NUMBER:
                    adv[n] = value
                if type(value := get("s")) in _NUMBER:
                    s[n] = value
                if type(value := get("lag")) in _NUMBER:
                    lag[n] = value
                if get("kind") == "use" and type(value := get("step")) in _NUMBER:
                    used[n] = value
            if get("kind") == "use" and (clip := get("clip")) in CLIPS:
                self._clip[n] = max(self._clip[n], CLIPS.index(clip))
            if isinstance(code := get("excl"), str):
                if code not in self._codes and len(self._codes) < 200:
                    self._codes.append(code)
                self._excl[n] = self._codes.index(code) if code in self._codes else 0
        return min((line["n"] for line in lines), default=0)

    def _grow(self, size: int) -> bool:
        more = size - len(self._clip)
        if more > 1_000_000:  # damage must not cost memory
            return False
        for column in self._columns.values():
            column.extend([math.nan] * more)
        self._clip.extend([-1] * more)
        self._excl.extend([0] * more)
        return True
