"""The frame around our own widgets (borders, scroll bars, inputs) in a theme's colours, as Textual wants them said."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rltui.look.colors import readable_on
from rltui.look.theme import Theme


def rgb_arguments(theme: Theme, shown: Callable[[str], str]) -> dict[str, Any]:
    """`shown` gives the colour that the terminal can show."""
    color = {name: shown(value) for name, value in theme.rgb.colors.items()}
    on_accent = readable_on(color["accent"], (color["background"], color["strong"]))
    variables = {
        "border": color["accent"],
        "border-blurred": color["border"],
        "text": color["text"],
        "text-muted": color["dim"],
        "text-disabled": color["dim"],
        "block-cursor-foreground": color["strong"],
        "block-cursor-background": color["selection"],
        "block-cursor-text-style": "none",
        "block-cursor-blurred-foreground": color["text"],
        "block-cursor-blurred-background": color["selection_idle"],
        "block-cursor-blurred-text-style": "none",
        "block-hover-background": color["selection_idle"],
        "scrollbar": color["grid"],
        "scrollbar-hover": color["border"],
        "scrollbar-active": color["accent"],
        "scrollbar-background": color["background"],
        "scrollbar-background-hover": color["background"],
        "scrollbar-background-active": color["background"],
        "scrollbar-corner-color": color["background"],
        "input-cursor-foreground": on_accent,
        "input-cursor-background": color["accent"],
        "input-cursor-text-style": "none",
        "input-selection-background": color["selection"],
        "input-selection-foreground": color["strong"],
        "screen-selection-background": color["selection"],
        "screen-selection-foreground": color["strong"],
        "link-color": color["accent"],
        "link-background": "transparent",
        "link-color-hover": color["accent"],
        "link-background-hover": color["selection_idle"],
    }
    return {
        "name": theme.name,
        "dark": theme.dark,
        "ansi": False,
        "primary": color["accent"],
        "secondary": color["info"],
        "accent": color["accent"],
        "success": color["good"],
        "warning": color["watch"],
        "error": color["act"],
        "foreground": color["text"],
        "background": color["background"],
        "surface": color["surface"],
        "panel": color["surface"],
        "boost": color["surface"],
        "text_alpha": 1.0,
        "variables": {**variables, **_ours(color)},
    }


def ansi_arguments(theme: Theme, *, colored: bool) -> dict[str, Any]:
    """For terminals of 16 colours; without colour all is the terminal's default and attributes carry the meaning."""
    color = {name: f"ansi_{value}" if colored else "ansi_default" for name, value in theme.ansi.colors.items()}
    fill = color["selection"]
    on_fill = "ansi_black" if fill != "ansi_default" else "ansi_default"
    cursor_style = "none" if fill != "ansi_default" else "reverse"
    bar_ground = "ansi_default"
    variables = {
        "border": color["accent"],
        "border-blurred": color["border"],
        "text": color["text"],
        "text-muted": color["dim"],
        "text-disabled": color["dim"],
        "foreground-muted": color["dim"],
        "block-cursor-foreground": on_fill,
        "block-cursor-background": fill,
        "block-cursor-text-style": cursor_style,
        "block-cursor-blurred-foreground": "ansi_default",
        "block-cursor-blurred-background": "ansi_default",
        "block-cursor-blurred-text-style": "underline",
        "block-hover-background": "ansi_default",
        "scrollbar": color["border"],
        "scrollbar-hover": color["border"],
        "scrollbar-active": color["accent"],
        "scrollbar-background": bar_ground,
        "scrollbar-background-hover": bar_ground,
        "scrollbar-background-active": bar_ground,
        "scrollbar-corner-color": bar_ground,
        "input-cursor-foreground": "ansi_default",
        "input-cursor-background": "ansi_default",
        "input-cursor-text-style": "reverse",
        "input-selection-background": fill,
        "input-selection-foreground": on_fill,
        "screen-selection-background": fill,
        "screen-selection-foreground": on_fill,
        "link-color": color["accent"],
        "link-color-hover": color["accent"],
        "link-background-hover": "ansi_default",
        "ansi-background": "ansi_default",  # Textual's own style sheets need these two
        "ansi-foreground": "ansi_default",
    }
    return {
        "name": theme.name,
        "dark": theme.dark,
        "ansi": True,
        "primary": color["accent"],
        "secondary": color["info"],
        "accent": color["accent"],
        "success": color["good"],
        "warning": color["watch"],
        "error": color["act"],
        "foreground": "ansi_default",
        "background": "ansi_default",
        "surface": "ansi_default",
        "panel": "ansi_default",
        "boost": "ansi_default",
        "variables": {**variables, **_ours(color)},
    }


def _ours(color: dict[str, str]) -> dict[str, str]:
    """Each colour of the theme for style sheets, as `$rl-dim`, `$rl-role-user` ..."""
    return {f"rl-{name.replace('_', '-')}": value for name, value in color.items()}
