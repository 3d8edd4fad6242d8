"""How everything looks: themes, styles by meaning, glyphs. No Textual here.

look = default_look()
look.style("act"), look.glyph("cursor"), look.state("running")
"""

from __future__ import annotations

from rltui.look.files import ThemeFiles
from rltui.look.look import Look
from rltui.look.theme import Theme, ThemeError
from rltui.terminal.capabilities import ColorMode

__all__ = ["ColorMode", "Look", "Theme", "ThemeError", "ThemeFiles", "default_look"]


def default_look() -> Look:
    """The shipped dark theme in full colour and Unicode. Raises ThemeError if the installation lost it."""
    return Look(ThemeFiles().load("dark"), ColorMode.TRUECOLOR, ascii=False)
