"""Where each key of a TOML document stands.

`tomllib` gives the values and rejects what is no TOML; it keeps no positions. This scanner runs on text that
tomllib accepted, so it only has to find the ends of things, never to judge them.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from contextlib import suppress
from dataclasses import dataclass, field

from trainer.config.toml_values import split_key

Path = tuple[str | int, ...]  # int: index into an array

SPACE = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_BLANKS = re.compile(r"[ \t]*")
_KEY_PART = re.compile(r'"(?:[^"\\]|\\.)*"|\'[^\']*\'|[A-Za-z0-9_-]+')
STRING = re.compile(
    r'"""(?:[^"\\]|\\.|"(?!""))*"""(?:"{1,2})?'  # up to two quotes may stand before the closing three
    r"|'''(?:[^']|'(?!''))*'''(?:'{1,2})?"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'",
    re.DOTALL,
)
_ATOM = re.compile(r"[^\s,\]}#]+(?: \d{2}:[^\s,\]}#]+)?")  # the second part: a date and time split by a space


@dataclass(frozen=True, slots=True)
class Mark:
    """Offsets into the text. A table header and the tables on the way to a dotted key have no value."""

    key: int
    value: int | None = None
    value_end: int | None = None


@dataclass(slots=True)
class Block:
    """A header and the pairs below it. The first block of a document has no header and an empty path.

    Attributes:
        names: offsets of the header's key, without the brackets.
        start, end: offsets of the header, with the brackets.
        pairs: full paths, in the order of the text; what stands inside of inline tables is not among them.
    """

    path: Path
    names: tuple[int, int] = (0, 0)
    start: int = 0
    end: int = 0
    pairs: list[Path] = field(default_factory=list)


class Positions:
    """Marks by path, and offsets as line and column (both from 1, columns in characters).

    Offsets are those of the given text; its line ends may be "\\n", "\\r\\n", or both.
    """

    def __init__(self, text: str):
        self.text = text
        self.marks: dict[Path, Mark] = {}
        self.blocks: list[Block] = [Block(())]
        self._lines = [0] + [match.end() for match in re.finditer("\n", self.text)]
        _Scanner(self.text, self.marks, self.blocks).document()

    def line_column(self, offset: int) -> tuple[int, int]:
        line = bisect_right(self._lines, offset)
        return line, offset - self._lines[line - 1] + 1

    def of_key(self, path: Path) -> tuple[int, int] | None:
        mark = self.marks.get(path)
        return None if mark is None else self.line_column(mark.key)

    def of_value(self, path: Path) -> tuple[int, int] | None:
        """Where the value starts; where the key starts for a table that has a header."""
        mark = self.marks.get(path)
        if mark is None:
            return None
        return self.line_column(mark.key if mark.value is None else mark.value)

    def text_of(self, path: Path) -> str | None:
        """The value as it is spelt; None for what has no value of its own, or one of several lines."""
        mark = self.marks.get(path)
        if mark is None or mark.value is None:
            return None
        text = self.text[mark.value : mark.value_end]
        return None if "\n" in text else text


def unfinished(text: str) -> int:
    """Where the first statement begins that the text ends in the middle of; its end if there is none."""
    marks: dict[Path, Mark] = {}
    blocks = [Block(())]
    with suppress(ValueError, IndexError):
        _Scanner(text, marks, blocks).document()
        return len(text.rstrip())
    ends = [block.end for block in blocks]
    ends += [end for block in blocks for path in block.pairs if (end := marks[path].value_end) is not None]
    match = SPACE.match(text, max(ends))
    return max(ends) if match is None else match.end()


class _Scanner:
    def __init__(self, text: str, marks: dict[Path, Mark], blocks: list[Block]):
        self.text = text
        self.marks = marks
        self.blocks = blocks
        self.at = 0
        self._array_length: dict[Path, int] = {}  # of [[arrays]] of tables

    def document(self) -> None:
        self._skip(SPACE)
        while self.at < len(self.text):
            if self.text[self.at] == "[":
                self.blocks.append(self._header())
            else:
                self.blocks[-1].pairs.append(self._pair(self.blocks[-1].path))
            self._skip(SPACE)

    def _header(self) -> Block:
        opening = self.at
        is_array = self.text.startswith("[[", self.at)
        self.at += 2 if is_array else 1
        self._skip(_BLANKS)
        start = self.at
        names = self._key()
        end = self.at
        self._skip(_BLANKS)
        self.at += 2 if is_array else 1
        path: Path = ()
        for name in names[:-1]:
            path = (*path, name)
            self.marks.setdefault(path, Mark(start))
            if path in self._array_length:  # a header below an array of tables means its last element
                path = (*path, self._array_length[path] - 1)
        path = (*path, names[-1])
        self.marks.setdefault(path, Mark(start))
        if is_array:
            index = self._array_length.get(path, 0)
            self._array_length[path] = index + 1
            path = (*path, index)
            self.marks.setdefault(path, Mark(start))
        return Block(path, (start, end), opening, self.at)

    def _pair(self, table: Path) -> Path:
        """`key = value`, the scanner standing on the key; returns its full path."""
        start = self.at
        names = self._key()
        for count in range(1, len(names)):
            self.marks.setdefault((*table, *names[:count]), Mark(start))
        self._skip(_BLANKS)
        self.at += 1  # the equals sign
        self._skip(_BLANKS)
        path = (*table, *names)
        value = self.at
        self._value(path)
        self.marks[path] = Mark(start, value, self.at)
        return path

    def _key(self) -> tuple[str, ...]:
        start = self.at
        self._skip(_KEY_PART)
        while True:
            end = self.at
            self._skip(_BLANKS)
            if not self.text.startswith(".", self.at):
                self.at = end
                return split_key(self.text[start:end])
            self.at += 1
            self._skip(_BLANKS)
            self._skip(_KEY_PART)

    def _value(self, path: Path) -> None:
        first = self.text[self.at]
        if first == "[":
            self._array(path)
        elif first == "{":
            self._inline_table(path)
        elif first in "\"'":
            self._skip(STRING)
        else:
            self._skip(_ATOM)

    def _array(self, path: Path) -> None:
        self.at += 1
        index = 0
        while True:
            self._skip(SPACE)
            if self.text[self.at] == "]":
                self.at += 1
                return
            if self.text[self.at] == ",":
                self.at += 1
                continue
            start = self.at
            self._value((*path, index))
            self.marks[(*path, index)] = Mark(start, start, self.at)
            index += 1

    def _inline_table(self, path: Path) -> None:
        self.at += 1
        while True:
            self._skip(SPACE)
            if self.text[self.at] == "}":
                self.at += 1
                return
            if self.text[self.at] == ",":
                self.at += 1
                continue
            self._pair(path)

    def _skip(self, pattern: re.Pattern[str]) -> None:
        match = pattern.match(self.text, self.at)
        if match is None:
            raise ValueError(f"no TOML at offset {self.at}")
        self.at = match.end()
