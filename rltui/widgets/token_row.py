"""Rows of tokens: each token in the colour of its value, or, without colours, the values as a strip below the text."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style

from rltui.model.paragraphs import TokenText
from rltui.terminal.capabilities import ColorMode

if TYPE_CHECKING:
    from rltui.look import Look
    from rltui.model.xray import Xray

Spot = tuple[int, int, int]  # start, end in the row, token


def mono(look: Look) -> bool:
    """Whether values stand in a strip under the text."""
    return look.color is ColorMode.NONE


def spots_in(paragraph: TokenText, start: int, end: int) -> list[Spot]:
    """The tokens of the characters start … end of a line, as places in that row."""
    return [(max(a, start) - start, min(b, end) - start, i) for a, b, i in paragraph.places if a < end and b > start]


def token_style(look: Look, xray: Xray, mode: str, paragraph: TokenText, i: int) -> Style:
    """The colour of token i."""
    level = xray.level(mode, paragraph.branch.value(mode, i)) if mode not in xray.missing else math.nan
    if math.isnan(level):
        return look.style("dim")
    if mode == "trained":
        return look.style("good" if level else "dim")
    if mode == "version":
        return look.series(int(level))
    return look.gradient("diverging" if mode in xray.spread else "sequential", level)


def text_segments(
    look: Look, xray: Xray, mode: str, paragraph: TokenText, text: str, spots: list[Spot], cursor: int | None
) -> list[Segment]:
    """A row of text; `cursor` is the token that is read out."""
    segments, at = [], 0
    for start, end, i in spots:
        if start > at:
            segments.append(Segment(text[at:start], look.style("dim")))
        style = look.style("text") if mono(look) else token_style(look, xray, mode, paragraph, i)
        if i == cursor:
            style = look.style("match")
        segments.append(Segment(text[start:end], style))
        at = end
    return [*segments, Segment(text[at:], look.style("dim"))] if at < len(text) else segments


def strip_text(look: Look, xray: Xray, mode: str, paragraph: TokenText, text: str, spots: list[Spot]) -> str:
    """The values under a row of text: bars, or digits in ASCII; a blank where there is none."""
    found = [" "] * len(text)
    for start, end, i in spots:
        level = xray.level(mode, paragraph.branch.value(mode, i)) if mode not in xray.missing else math.nan
        found[start:end] = [level_sign(look, xray, mode, level)] * (end - start)
    return "".join(sign * cell_len(char) for sign, char in zip(found, text, strict=True))


def level_sign(look: Look, xray: Xray, mode: str, level: float) -> str:
    """One cell for a level."""
    if math.isnan(level):
        return " "
    if mode == "version":
        return str(xray.versions[int(level)] % 10)
    if look.ascii:
        return str(min(9, int(level * 9.999)))
    return look.bars[1 + min(7, int(level * 7.999))]
