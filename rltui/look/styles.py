"""Which colour and which attributes each style has. Styles without colour must still tell things apart."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Recipe:
    """A style before a theme gives it colour.

    Attributes:
        color: foreground, a name of theme.COLORS; "" keeps what lies below.
        fill: background, likewise. Under a fill that is `loud`, text takes the colour that can be read on it.
        loud: a block of colour, such as a match, in which the text's own colour does not count.
        attributes: with and without colour, in rich's words.
        bare: attributes that stand for the colour where there is none.
    """

    color: str = ""
    fill: str = ""
    loud: bool = False
    attributes: str = ""
    bare: str = ""


STYLES: dict[str, Recipe] = {
    "text": Recipe("text"),
    "dim": Recipe("dim", bare="dim"),
    "strong": Recipe("strong", attributes="bold"),
    "border": Recipe("border", bare="dim"),
    "border_focus": Recipe("accent", bare="bold"),
    "title": Recipe("text", attributes="bold"),
    "accent": Recipe("accent", bare="bold"),
    "selection": Recipe(fill="selection", bare="reverse not dim"),
    "selection_idle": Recipe(fill="selection_idle", bare="underline"),
    "marked": Recipe("marked", attributes="bold"),
    "good": Recipe("good"),
    "watch": Recipe("watch", bare="bold"),
    "act": Recipe("act", attributes="bold"),
    "info": Recipe("info"),
    "live": Recipe("live", bare="bold"),
    "key": Recipe("accent", bare="bold"),
    "key_label": Recipe("dim"),
    "match": Recipe(fill="match", loud=True, bare="reverse not dim"),
    "header": Recipe("dim", fill="surface"),
    "header_active": Recipe("accent", fill="surface", attributes="bold"),
    "role_system": Recipe("role_system", attributes="bold"),
    "role_user": Recipe("role_user", attributes="bold"),
    "role_assistant": Recipe("role_assistant", attributes="bold"),
    "role_tool": Recipe("role_tool", attributes="bold"),
    "level_debug": Recipe("dim", bare="dim"),
    "level_info": Recipe("text"),
    "level_warning": Recipe("watch", bare="bold"),
    "level_error": Recipe("act", attributes="bold"),
    "axis": Recipe("dim", bare="dim"),
    "grid": Recipe("grid", bare="dim"),
    "replay": Recipe(fill="replay", loud=True, attributes="bold", bare="reverse not dim"),
}

STATES: dict[str, str] = {  # of a run, and the style of its glyph and word
    "queued": "dim",
    "starting": "info",
    "running": "live",
    "paused": "watch",
    "stopping": "watch",
    "succeeded": "good",
    "failed": "act",
    "cancelled": "dim",
    "unreadable": "act",
}
