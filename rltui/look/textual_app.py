"""What Textual must be told, and when, so that a terminal gets only colours of its mode.

Textual reads TEXTUAL_COLOR_SYSTEM when it is imported and NO_COLOR when the app is built, and picks its colour filters
then: a theme that is chosen later changes neither.
"""

from __future__ import annotations

from typing import Any

from rltui.terminal.capabilities import ColorMode

_SYSTEMS = {
    ColorMode.TRUECOLOR: "truecolor",
    ColorMode.ANSI256: "256",
    ColorMode.ANSI16: "standard",
    ColorMode.NONE: "standard",
}


def environment(color: ColorMode) -> dict[str, str | None]:
    """Variables to set (None: to remove) before `textual` is imported."""
    # An empty TEXTUAL_FILTERS keeps a user's "dim" filter from making new colours.
    return {
        "TEXTUAL_COLOR_SYSTEM": _SYSTEMS[color],
        "NO_COLOR": "1" if color is ColorMode.NONE else None,
        "TEXTUAL_FILTERS": "",
    }


def app_arguments(color: ColorMode) -> dict[str, Any]:
    """Arguments for `textual.app.App`."""
    return {"ansi_color": color in (ColorMode.ANSI16, ColorMode.NONE)}
