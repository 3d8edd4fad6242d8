"""Many-line text for a screen: cleaned piece by piece, wrapped by cells, and only where somebody looks.

`rltui.text` makes one short safe line of anything; here indentation and length matter. Widths are those that the
screen's compositor counts, so a row that fits here fits there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rich.cells import cell_len

from rltui.text import _ESCAPES, ELLIPSIS, _safe

PIECE = 4_096  # characters that are cleaned, wrapped or searched at once, however long a line is
TAB = 4
_NEAR_END = 256  # a piece may end this much earlier, at a space

# Joiners, variation selectors and skin tones change the width of their neighbours, the letters of flags join in pairs
# in some, and fillers of Hangul are 0, 1 or 2 cells: no two terminals agree.
_AMBIGUOUS = re.compile(
    "[\u115f\u1160\u200c\u200d\u3164\uffa0\ufe00-\ufe0f"
    "\U0001f1e6-\U0001f1ff\U0001f3fb-\U0001f3ff\U000e0100-\U000e01ef]+"
)

_SPACES = dict.fromkeys([0xA0, 0x1680, *range(0x2000, 0x200B), 0x202F, 0x205F], " ")
_SPACES[0x3000] = "  "  # as wide as an ideograph


def pieces(text: str) -> Iterator[str]:
    """The lines of raw `text`, longer ones in pieces of at most `PIECE` characters. Never empty."""
    for line in text.split("\n"):
        yield from cut(line.removesuffix("\r"))


def cut(line: str) -> Iterator[str]:
    """One raw line in pieces of at most `PIECE` characters, cut at a space where one is near."""
    start, end = 0, len(line)
    while end - start > PIECE:
        space = line.rfind(" ", start + PIECE - _NEAR_END, start + PIECE)
        stop = space + 1 if space >= 0 else start + PIECE
        yield line[start:stop]
        start = stop
    yield line[start:]


def is_printable(text: str) -> bool:
    """Whether `text` can go to the screen as it is: nothing to obey, nothing of a width that nobody knows."""
    return text.isprintable() and (text.isascii() or _AMBIGUOUS.search(text) is None)


def printable(piece: str) -> str:
    """One raw piece without anything that a terminal would obey; spaces and indentation stay.

    Escape sequences and control characters go, tabs become spaces, bidi controls and lone surrogates become a
    visible mark. The cost is that of the piece: cut first.
    """
    if piece.isascii() and piece.isprintable():
        return piece
    if "\x1b" in piece or not piece.isascii():
        piece = _ESCAPES.sub("", piece)
    if "\t" in piece:
        piece = piece.expandtabs(TAB)
    if piece.isascii() and piece.isprintable():
        return piece
    return _AMBIGUOUS.sub("", "".join(_safe(piece.translate(_SPACES))))


def wrap(text: str, width: int, *, words: bool = True) -> list[str]:
    """Printable `text` in rows of at most `width` cells; breaks after a word where there is one. Never empty."""
    width = max(1, width)
    if text.isascii():
        if len(text) <= width:
            return [text]
        return _wrap_ascii(text, width, words)
    if cell_len(text) <= width:
        return [text]
    return _wrap_cells(text, width, words)


def _wrap_ascii(text: str, width: int, words: bool) -> list[str]:
    rows: list[str] = []
    start, end = 0, len(text)
    while end - start > width:
        stop = _break(text, start, start + width) if words else start + width
        rows.append(text[start:stop].rstrip(" ") if words else text[start:stop])
        start = _after_break(text, stop) if words else stop
    if start < end:
        rows.append(text[start:])
    return rows


def _wrap_cells(text: str, width: int, words: bool) -> list[str]:
    rows: list[str] = []
    start = used = at = 0
    while at < len(text):
        cells = cell_len(text[at])
        if used + cells > width and at > start:
            stop = _break(text, start, at) if words else at
            rows.append(text[start:stop].rstrip(" ") if words else text[start:stop])
            start = at = _after_break(text, stop) if words else stop
            used = 0
            continue
        # A wide character in a single column has no place: it becomes a mark of one cell.
        if cells > width:
            text = text[:at] + ELLIPSIS + text[at + 1 :]
            cells = 1
        used += cells
        at += 1
    if start < len(text):
        rows.append(text[start:])
    return rows


def _break(text: str, start: int, limit: int) -> int:
    """Where a row that begins at `start` and may not pass `limit` ends: after its last word, else at the limit."""
    if text[limit] == " ":
        return limit
    space = text.rfind(" ", start, limit)
    # A row of indentation alone helps nobody.
    return space + 1 if space >= start and text[start:space].strip(" ") else limit


def _after_break(text: str, stop: int) -> int:
    """One space at a break is the break; more are indentation that the writer meant."""
    return stop + 1 if stop < len(text) and text[stop] == " " and text[stop - 1] != " " else stop


def crop(text: str, width: int, *, more: str = ELLIPSIS) -> str:
    """Printable `text` in at most `width` cells, a cut shown by `more` (one cell)."""
    if width <= 0:
        return ""
    if text.isascii():
        return text if len(text) <= width else text[: width - 1] + more
    if cell_len(text) <= width:
        return text
    used = 0
    for at, char in enumerate(text):
        used += cell_len(char)
        if used > width - 1:
            return text[:at] + more
    return text


def pad(text: str, width: int, *, right: bool = False) -> str:
    """Printable `text` cropped or filled to exactly `width` cells; `right` aligns it there."""
    text = crop(text, width)
    fill = " " * (width - cell_len(text))
    return fill + text if right else text + fill
