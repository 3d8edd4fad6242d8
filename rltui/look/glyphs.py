"""Signs of one cell, as Unicode and as ASCII."""

from __future__ import annotations

GLYPHS: dict[str, tuple[str, str]] = {
    "state_queued": ("○", "."),
    "state_starting": ("◔", ":"),
    "state_running": ("●", "*"),
    "state_paused": ("‖", "="),
    "state_stopping": ("◌", "-"),
    "state_succeeded": ("✓", "+"),
    "state_failed": ("✗", "x"),
    "state_cancelled": ("⊘", "~"),
    "state_unreadable": ("?", "?"),
    "cursor": ("▸", ">"),
    "mark": ("◆", "#"),
    "pin": ("★", "^"),
    "more": ("⋯", "~"),
    "up": ("↑", "^"),
    "down": ("↓", "v"),
    "left": ("←", "<"),
    "right": ("→", ">"),
    "ellipsis": ("…", "~"),
    "good": ("✓", "+"),
    "watch": ("▲", "!"),
    "act": ("✗", "x"),
    "dot": ("·", "."),
    "sep": ("│", "|"),
    "hline": ("─", "-"),
    "vline": ("│", "|"),
    "bar_full": ("█", "#"),
    "bar_empty": ("░", "."),
    "fold_open": ("▾", "-"),
    "fold_closed": ("▸", "+"),
    "unread": ("•", "*"),
    "clipped": ("»", ">"),
    "gap": ("×", "x"),
}
MARKERS = ("●■▲◆▼★+×", "o#^@v*+x")
BARS = (" ▁▂▃▄▅▆▇█", " .:-=+*#@")
BOX = ("round", "ascii")
