"""Cells of the screen as control sequences, in few bytes: what is slow about a slow line are the styles."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from rich.cells import cell_len
from rich.color import ColorSystem
from rich.style import Style
from textual.strip import Strip

_NEAR = 3  # columns back that cost less than a place
_UNSEEN_ON_BLANKS = frozenset(("1", "2", "3"))  # bold, dim, italic


class Codes(NamedTuple):
    """What a style is to a terminal: parameters of SGR."""

    attributes: frozenset[str] = frozenset()
    color: str = ""
    background: str = ""


class Piece(NamedTuple):
    """Text from a cell on, counted from 0."""

    y: int
    x: int
    text: str
    codes: Codes


PLAIN = Codes()


def pieces(y: int, x: int, strip: Strip, system: ColorSystem) -> list[Piece]:
    """Part of a row. Blanks go with the text beside them, whose colour they would not show."""
    found: list[Piece] = []
    for text, style, _ in strip:
        codes = codes_of(style, system) if style is not None else PLAIN
        last = found[-1] if found else None
        if last is not None and _alike(last, text, codes):
            found[-1] = Piece(y, last.x, last.text + text, codes if last.text.isspace() else last.codes)
        elif text:
            found.append(Piece(y, x, text, codes))
        x += cell_len(text)
    return found


def _alike(last: Piece, text: str, codes: Codes) -> bool:
    """Whether `text` may have the style of `last`, or the other way round."""
    if last.codes == codes:
        return True
    return (last.text.isspace() or text.isspace()) and _same_on_blanks(last.codes, codes)


def _same_on_blanks(one: Codes, other: Codes) -> bool:
    if one == other:
        return True
    return one.background == other.background and one.attributes | other.attributes <= _UNSEEN_ON_BLANKS


def sequences(cells: Sequence[Piece], width: int) -> str:
    """Draws these on a screen of that width, by rows or by styles, whichever is shorter; then all is plain again."""
    styles: dict[Codes, int] = {}
    for piece in cells:
        styles.setdefault(piece.codes, len(styles))
    order = {codes: (len(codes.attributes), i) for codes, i in styles.items()}
    blank = (_blank(piece, styles) for piece in cells)
    by_style = sorted(blank, key=lambda piece: (order[piece.codes], piece.x, piece.y))
    return min(_in_order(cells, width), _in_order(by_style, width), key=len)


def _blank(piece: Piece, styles: Iterable[Codes]) -> Piece:
    """Blanks in the first style that looks the same on them."""
    if not piece.text.isspace():
        return piece
    return piece._replace(codes=next(codes for codes in styles if _same_on_blanks(codes, piece.codes)))


def _in_order(cells: Iterable[Piece], width: int) -> str:
    sent: list[str] = []
    row, column, now = -1, -1, PLAIN
    for y, x, text, codes in cells:
        if (y, x) != (row, column):
            back = column - x
            beneath = y == row + 1 and 0 <= back <= _NEAR and column < width
            sent.append("\x1b[B" + "\b" * back if beneath else f"\x1b[{y + 1};{x + 1}H")
        if codes != now:
            sent.append(_change(now, codes))
            now = codes
        sent.append(text)
        row, column = y, x + cell_len(text)
    if now != PLAIN:
        sent.append("\x1b[0m")
    return "".join(sent)


@lru_cache(1024)
def _change(now: Codes, codes: Codes) -> str:
    if codes == PLAIN:
        return "\x1b[0m"
    if now.attributes <= codes.attributes:
        changes = [
            *sorted(codes.attributes - now.attributes),
            *([codes.color or "39"] if codes.color != now.color else []),
            *([codes.background or "49"] if codes.background != now.background else []),
        ]
    else:
        changes = ["0", *sorted(codes.attributes), codes.color, codes.background]
    return f"\x1b[{';'.join(filter(None, changes))}m"


@lru_cache(4096)
def codes_of(style: Style, system: ColorSystem) -> Codes:
    """The parameters of a style in the colours that the terminal has."""
    attributes, color, background = set[str](), "", ""
    left = list(filter(None, Strip.render_ansi(style, system).split(";")))
    while left:
        code = left[0]
        size = (5 if left[1] == "2" else 3) if code in ("38", "48") else 1
        one, left = ";".join(left[:size]), left[size:]
        if code in ("38", "39") or "30" <= code <= "37" or (code[0] == "9" and len(code) == 2):
            color = one
        elif len(code) == 3 or "40" <= code <= "49":
            background = one
        else:
            attributes.add(one)
    return Codes(frozenset(attributes), color, background)
