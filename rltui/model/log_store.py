"""The last lines of a run's logs, bounded, with a filter by source and level."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from rltui.model.log_lines import MAX_UP, Folder, Level, Levels
from rltui.text_lines import cut

MAX_LINES = 200_000
MAX_CHARS = 64_000_000
_DROP_SHARE = 16  # a sixteenth goes at once: dropping line by line would move all the others each time


@dataclass(slots=True)
class Appended:
    """What an `append` did to the lines that are shown: how many came, which changed, how many left in front."""

    added: int = 0
    changed: list[int] = field(default_factory=list)
    dropped: int = 0


class _Source:
    def __init__(self, number: int) -> None:
        self.number = number
        self.folder = Folder()
        self.levels = Levels()
        self.last: list[int] = []  # sequence numbers of its last lines, which a progress bar may change


class LogStore:
    """Lines of several sources in the order they came. A line longer than a piece is kept as several entries."""

    def __init__(self, max_lines: int = MAX_LINES, max_chars: int = MAX_CHARS) -> None:
        self.max_lines, self.max_chars = max_lines, max_chars
        self.dropped = 0  # entries that are gone for good
        self._texts: list[str] = []
        self._levels = bytearray()
        self._sources = bytearray()
        self._parts = bytearray()  # 1: goes on with the entry before
        self._chars = 0
        self._base = 0  # sequence number of the first entry
        self._by_name: dict[str, _Source] = {}
        self._names: list[str] = []
        self._level = Level.DEBUG
        self._only: int | None = None
        self._whole = False  # later parts of long lines are shown too
        self._shown = array("Q")

    # Reading

    @property
    def names(self) -> list[str]:
        """Sources, in the order they were first seen."""
        return list(self._names)

    def __len__(self) -> int:
        """Entries that the filter shows."""
        return len(self._shown)

    @property
    def total(self) -> int:
        """Entries in memory, shown or not."""
        return len(self._texts)

    def text(self, i: int) -> str:
        """Shown entry `i`, raw."""
        return self._texts[self._shown[i] - self._base]

    def level(self, i: int) -> Level:
        """Level of shown entry `i`."""
        return Level(self._levels[self._shown[i] - self._base])

    def source(self, i: int) -> str:
        """Name of the source of shown entry `i`."""
        return self._names[self._sources[self._shown[i] - self._base]]

    def goes_on(self, i: int) -> bool:
        """Whether shown entry `i` is a later part of a long line."""
        return bool(self._parts[self._shown[i] - self._base])

    def is_cut(self, i: int) -> bool:
        """Whether the line of shown entry `i` has a later part."""
        after = self._shown[i] - self._base + 1
        return after < len(self._parts) and bool(self._parts[after])

    def numbered(self, start: int, stop: int) -> Iterator[tuple[int, str]]:
        """Shown entries from `start` on towards `stop` (left out), with their numbers; backwards if stop < start. Of
        numbers that there are not any more, as after another filter, none."""
        for i in range(start, stop, 1 if stop >= start else -1):
            if i < len(self):
                yield i, self.text(i)

    # Filter

    @property
    def level_shown(self) -> Level:
        """The lowest level that is shown."""
        return self._level

    def show(self, *, level: Level | None = None, only: str | None = "", whole: bool | None = None) -> None:
        """Change the filter: lowest level, one source (None: all), later parts of long lines."""
        self._level = self._level if level is None else level
        self._whole = self._whole if whole is None else whole
        if only != "":
            self._only = None if only is None else self._of(only).number
        self._shown = array("Q", (self._base + i for i in range(len(self._texts)) if self._passes(i)))

    def place(self, seq: int) -> int:
        """The first shown entry that is not before sequence number `seq`."""
        return bisect_left(self._shown, seq)

    def seq(self, i: int) -> int:
        """A number for shown entry `i` that filters and drops do not change."""
        return self._shown[i]

    def _passes(self, at: int) -> bool:
        return (
            self._levels[at] >= self._level
            and (self._only is None or self._sources[at] == self._only)
            and (self._whole or not self._parts[at])
        )

    # Writing

    def append(self, lines: Iterable[str], source: str = "") -> Appended:
        """Take raw lines of `source`, without their line feeds."""
        of, done, shown_before = self._of(source), Appended(), len(self._shown)
        changed: set[int] = set()
        for line in lines:
            for edit in of.folder.edits(line):
                if 0 < edit.back <= len(of.last):
                    changed.add(self._replace(of.last[-edit.back], edit.text))
                else:
                    self._add(edit.text, of)
        done.added = len(self._shown) - shown_before
        if len(self._texts) > self.max_lines or self._chars > self.max_chars:
            done.dropped = self._drop()
        for seq in changed:
            at = self.place(seq)
            if at < len(self._shown) and self._shown[at] == seq:
                done.changed.append(at)
        return done

    def _of(self, name: str) -> _Source:
        source = self._by_name.get(name)
        if source is None:
            # A byte for the source: a run has a dozen logs. What is beyond is counted under the last.
            number = min(len(self._names), 255)
            source = self._by_name[name] = _Source(number)
            if number == len(self._names):
                self._names.append(name)
        return source

    def _add(self, line: str, source: _Source) -> None:
        level = source.levels.of(line)
        for part, piece in enumerate(cut(line)):
            self._texts.append(piece)
            self._levels.append(level)
            self._sources.append(source.number)
            self._parts.append(part > 0)
            self._chars += len(piece)
            at = len(self._texts) - 1
            if part == 0:
                source.last.append(self._base + at)
                del source.last[:-MAX_UP]
            if self._passes(at):
                self._shown.append(self._base + at)

    def _replace(self, seq: int, line: str) -> int:
        at = seq - self._base
        if at >= 0:
            piece = next(cut(line))
            self._chars += len(piece) - len(self._texts[at])
            self._texts[at] = piece
        return seq

    def _drop(self) -> int:
        """Forget the oldest entries; gives how many of those that were shown."""
        count = max(len(self._texts) - self.max_lines, 0)
        chars = self._chars
        for i, text in enumerate(self._texts):
            if i >= count and chars <= self.max_chars:
                break
            chars -= len(text)
            count = max(count, i + 1)
        count = min(len(self._texts), count + self.max_lines // _DROP_SHARE)
        self._chars -= sum(map(len, self._texts[:count]))
        for column in (self._texts, self._levels, self._sources, self._parts):
            del column[:count]
        self._base += count
        self.dropped += count
        hidden = bisect_left(self._shown, self._base)
        del self._shown[:hidden]
        return hidden
