"""A grid of terminal cells to draw lines on, in dots finer than a cell: braille, blocks or plain ASCII.

The three differ only in their `Glyphs`. Layers are painted from back to front; a cell shows the front layer
that touched it, in one style.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from typing import Literal

from rltui.charts.parts import Ink, Run, Style

Level = Literal["braille", "block", "ascii"]


@dataclass(frozen=True)
class Glyphs:
    """How dots become characters: `masks[x][y]` is the bit of the dot at column x, row y (0 = top) of a cell."""

    masks: tuple[tuple[int, ...], ...]
    chars: str  # the character of each sum of bits
    faint_chars: str  # the same for faint series, where colour may not tell them apart

    @property
    def dots_x(self) -> int:
        return len(self.masks)

    @property
    def dots_y(self) -> int:
        return len(self.masks[0])


@cache
def glyphs(level: Level) -> Glyphs:
    """The glyphs of a level, best first: "braille" (2x4 dots a cell), "block" (1x8), "ascii" (1x3)."""
    if level == "braille":
        chars = " " + "".join(chr(0x2800 + bits) for bits in range(1, 256))
        return Glyphs(((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80)), chars, chars)
    if level == "block":
        chars = "".join(_block(bits) for bits in range(256))
        return Glyphs((tuple(1 << row for row in range(8)),), chars, chars)
    # The sums: none, top, middle, top + middle, bottom, top + bottom, middle + bottom, all.
    return Glyphs(((1, 2, 4),), " '-|.:||", " '.:.:::")


def _block(bits: int) -> str:
    """The block character whose eighths differ least from `bits` (bit 0 = top)."""
    if not bits:
        return " "
    shapes = {"▔": 0b1, "▀": 0b1111, "─": 0b11000}
    shapes |= {char: 0xFF & ~((1 << (7 - n)) - 1) for n, char in enumerate("▁▂▃▄▅▆▇█")}
    return min(shapes, key=lambda char: (shapes[char] ^ bits).bit_count())


class Canvas:
    """`width` x `height` cells; dots are counted from the top left. Whatever lies outside is cut off."""

    def __init__(self, width: int, height: int, level: Level) -> None:
        self.width, self.height = width, height
        self._glyphs = glyphs(level)
        self.dots_x, self.dots_y = width * self._glyphs.dots_x, height * self._glyphs.dots_y
        self._bits = [0] * (width * height)
        self._styles: list[Style] = ["text"] * (width * height)
        # Characters by row and column, in front of the dots and behind them.
        self._front: list[dict[int, Run]] = [{} for _ in range(height)]
        self._behind: list[dict[int, Run]] = [{} for _ in range(height)]

    def span(self, x: int, top: int, bottom: int, ink: Ink) -> None:
        """The dots (x, top) to (x, bottom), both included. One `ink` object is one layer."""
        top, bottom = max(0, top), min(self.dots_y - 1, bottom)
        if top > bottom or not 0 <= x < self.dots_x:
            return
        rows, styles, bits = self._glyphs.dots_y, self._styles, self._bits
        masks = self._glyphs.masks[x % self._glyphs.dots_x]
        full = sum(masks)
        first, last = top // rows, bottom // rows
        cell = first * self.width + x // self._glyphs.dots_x
        for row in range(first, last + 1):
            mask = full
            if row == first or row == last:
                mask = sum(masks[max(top - row * rows, 0) : bottom - row * rows + 1])
            if styles[cell] is ink:
                bits[cell] |= mask
            else:  # a layer further back: the cell is ours now
                styles[cell], bits[cell] = ink, mask
            cell += self.width

    def join(self, x0: int, y0: int, x1: int, y1: int, ink: Ink) -> None:
        """A line from dot (x0, y0) to dot (x1, y1), x0 < x1, without holes."""
        across = x1 - x0
        before = y0
        for step in range(across + 1):
            # Each column takes the half of the climb that is nearer to it, so that columns meet.
            after = y1 if step == across else round(y0 + (step + 0.5) * (y1 - y0) / across)
            top, bottom = (before, after) if before <= after else (after, before)
            if step and bottom > top:  # the end of the climb belongs to the column before
                top, bottom = (top + 1, bottom) if before < after else (top, bottom - 1)
            self.span(x0 + step, top, bottom, ink)
            before = after

    def put(self, column: int, row: int, char: str, style: Style) -> None:
        """One character in front of all dots of a cell."""
        if 0 <= column < self.width and 0 <= row < self.height:
            self._front[row][column] = (char, style)

    def is_free(self, column: int, row: int) -> bool:
        """Whether neither dots nor a character stand in the cell."""
        return not self._bits[row * self.width + column] and column not in self._front[row]

    def band(self, top: int, bottom: int, char: str, style: Style) -> None:
        """Shades the cell rows of the dots `top` to `bottom` behind everything else."""
        rows = self._glyphs.dots_y
        for row in range(max(0, top // rows), min(self.height - 1, bottom // rows) + 1):
            self.write(0, row, char * self.width, style)

    def rule(self, column: int, char: str, style: Style) -> None:
        """A vertical line behind the dots."""
        for row in range(self.height):
            self.write(column, row, char, style)

    def write(self, column: int, row: int, text: str, style: Style) -> None:
        """Text behind the dots, in front of what was written there before; each character takes one cell."""
        for at, char in enumerate(text, column):
            if 0 <= at < self.width:
                self._behind[row][at] = (char, style)

    def lines(self) -> list[list[Run]]:
        """Row by row the runs of one style, as wide as the canvas."""
        return [self._line(row) for row in range(self.height)]

    def _line(self, row: int) -> list[Run]:
        start = row * self.width
        bits, styles = self._bits[start : start + self.width], self._styles[start : start + self.width]
        chars = list(map(self._glyphs.chars.__getitem__, bits))
        if self._glyphs.faint_chars != self._glyphs.chars:
            for column, style in enumerate(styles):
                if isinstance(style, Ink) and style.faint:
                    chars[column] = self._glyphs.faint_chars[bits[column]]
        for column, (char, style) in self._behind[row].items():
            if not bits[column]:
                chars[column], styles[column] = char, style
        for column, (char, style) in self._front[row].items():
            chars[column], styles[column] = char, style
        runs, at = [], 0
        for style, group in groupby(styles):
            end = at + len(list(group))
            runs.append(("".join(chars[at:end]), style))
            at = end
        return runs


def plain(lines: Sequence[Sequence[Run]]) -> list[str]:
    """The lines without their styles."""
    return ["".join(text for text, _ in line) for line in lines]
