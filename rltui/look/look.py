"""How everything looks: a theme in the terminal's colour mode, with its set of glyphs."""

from __future__ import annotations

import math
from functools import cache, cached_property
from typing import Any, Literal

from rich.style import Style

from rltui.look.colors import blend, nearest_256, readable_on
from rltui.look.glyphs import BARS, BOX, GLYPHS, MARKERS
from rltui.look.styles import STATES, STYLES, Recipe
from rltui.look.textual_theme import ansi_arguments, rgb_arguments
from rltui.look.theme import Theme
from rltui.terminal.capabilities import ColorMode

_LEVELS = 32  # of a gradient: more cannot be told apart, and each is a style in the cache


class Look:
    """Styles and glyphs by name; unknown names are KeyErrors. Immutable: another theme is another Look.

    A style with only a background (`selection`) is meant to lie over another: `base + look.style("selection")`.
    """

    def __init__(self, theme: Theme, color: ColorMode, ascii: bool, *, blocks: bool = False):
        self.theme = theme
        self.color = color
        self.ascii = ascii
        self.chart_level: Literal["braille", "block", "ascii"] = "ascii" if ascii else "block" if blocks else "braille"
        self.bars = BARS[ascii]
        self.box = BOX[ascii]
        self._styles: dict[str, Style] = {}
        self._levels: dict[tuple[str, int], Style] = {}
        self._series = [self._foreground(i) for i in range(len(theme.rgb.series))]

    def style(self, name: str) -> Style:
        style = self._styles.get(name)
        if style is None:
            style = self._styles[name] = self._build(STYLES[name])
        return style

    def state(self, name: str) -> tuple[str, Style]:
        """Glyph and style of a run's state; the word goes beside it. A state we do not know looks unreadable."""
        known = name if name in STATES else "unreadable"
        return self.glyph(f"state_{known}"), self.style(STATES[known])

    def series(self, i: int) -> Style:
        return self._series[i % len(self._series)]

    def marker(self, i: int) -> str:
        markers = MARKERS[self.ascii]
        return markers[i % len(markers)]

    def glyph(self, name: str) -> str:
        return GLYPHS[name][self.ascii]

    def gradient(self, kind: Literal["sequential", "diverging"], x: float) -> Style:
        """The text colour at `x` in 0..1, clipped; `dim` for NaN."""
        if math.isnan(x):
            return self.style("dim")
        level = round(min(1.0, max(0.0, x)) * _LEVELS)
        style = self._levels.get((kind, level))
        if style is None:
            style = self._levels[kind, level] = self._gradient(kind, level / _LEVELS)
        return style

    @cached_property
    def faded(self) -> Look:
        """The same with dim text, for data that are the last known."""
        return _Faded(self.theme, self.color, self.ascii, blocks=self.chart_level == "block")

    def textual_theme(self) -> dict[str, Any]:
        """Arguments for textual.theme.Theme, which this module does not import."""
        if self.color in (ColorMode.TRUECOLOR, ColorMode.ANSI256):
            return rgb_arguments(self.theme, self._shown)
        return ansi_arguments(self.theme, colored=self.color is ColorMode.ANSI16)

    def _shown(self, rgb: str) -> str:
        return nearest_256(rgb) if self.color is ColorMode.ANSI256 else rgb

    def _build(self, recipe: Recipe) -> Style:
        if self.color is ColorMode.NONE:
            return Style.parse(f"{recipe.attributes} {recipe.bare}".strip() or "none")
        if self.color is ColorMode.ANSI16:
            return self._build_ansi(recipe)
        colors = self.theme.rgb.colors
        color = colors[recipe.color] if recipe.color else None
        fill = colors[recipe.fill] if recipe.fill else None
        if fill and recipe.loud:
            color = readable_on(fill, (colors["background"], colors["strong"]))
        return Style(color=color and self._shown(color), bgcolor=fill and self._shown(fill)) + _attributes(recipe)

    def _build_ansi(self, recipe: Recipe) -> Style:
        """Terminal colours are the user's own, so only black is sure to be readable on all the fills."""
        colors = self.theme.ansi.colors
        fill = colors[recipe.fill] if recipe.fill else "default"
        color = colors[recipe.color] if recipe.color else "default"
        style = _attributes(recipe)
        if fill != "default":
            return Style(color="black", bgcolor=fill, dim=False) + style
        if color != "default":
            return Style(color=color) + style
        return style + Style.parse(recipe.bare or "none")

    def _foreground(self, i: int) -> Style:
        if self.color is ColorMode.NONE:
            return Style()
        if self.color is ColorMode.ANSI16:
            return Style(color=self.theme.ansi.series[i])
        return Style(color=self._shown(self.theme.rgb.series[i]))

    def _gradient(self, kind: str, x: float) -> Style:
        if self.color is ColorMode.NONE:
            low = "dim" if kind == "sequential" else "underline"
            return Style.parse(low if x < 1 / 3 else "bold" if x > 2 / 3 else "none")
        if self.color is ColorMode.ANSI16:
            stops = self.theme.ansi.gradients[kind]
            return Style(color=stops[min(len(stops) - 1, int(x * len(stops)))])
        return Style(color=self._shown(blend(self.theme.rgb.gradients[kind], x)))


class _Faded(Look):
    """Nothing but fills and what stands out by itself has a colour of its own."""

    def _build(self, recipe: Recipe) -> Style:
        return self._fade(super()._build(recipe))

    def _foreground(self, i: int) -> Style:
        return self._fade(super()._foreground(i))

    def _gradient(self, kind: str, x: float) -> Style:
        return self._fade(super()._gradient(kind, x))

    def _fade(self, style: Style) -> Style:
        return style if style.bgcolor is not None or style.dim is False else style + super()._build(STYLES["dim"])


@cache
def _attributes(recipe: Recipe) -> Style:
    return Style.parse(recipe.attributes or "none")
