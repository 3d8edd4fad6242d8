"""How keys are spelled: in the table, in a person's file, and on the screen."""

from __future__ import annotations

NAMED = frozenset(
    [
        *("enter", "escape", "tab", "space", "backspace", "delete", "insert", "home", "end", "pageup", "pagedown"),
        *("up", "down", "left", "right"),
        *(f"f{number}" for number in range(1, 13)),
    ]
)
ALIASES = {
    "esc": "escape",
    "return": "enter",
    "del": "delete",
    "ins": "insert",
    "pgup": "pageup",
    "pgdn": "pagedown",
    " ": "space",
}
_SENT_AS = {"ctrl+i": "tab", "ctrl+m": "enter", "ctrl+[": "escape", "ctrl+h": "backspace"}  # by every terminal
MODIFIERS = ("ctrl", "alt", "shift")  # in this order
_SHORT = {"escape": "esc", "pageup": "pgup", "pagedown": "pgdn", "delete": "del", "backspace": "bksp"}
_ARROWS = {"up": "↑", "down": "↓", "left": "←", "right": "→"}


def key_name(text: str) -> str:
    """The one spelling of a key: "Esc" is escape, "Ctrl+P" ctrl+p, " " space; "S" stays S.

    ValueError: it is no key, with the nearest one.
    """
    if len(text) == 1:
        if text.isprintable():
            return ALIASES.get(text, text)
        raise ValueError("a control character is no key; write its name, such as ctrl+a")
    *modifiers, last = (
        text.strip().lower().split("+") if not text.endswith("++") else [*text[:-2].lower().split("+"), "+"]
    )
    last = ALIASES.get(last, last)
    unknown = [name for name in modifiers if name not in MODIFIERS]
    if unknown or not (last in NAMED or (modifiers and len(last) == 1 and last.isprintable())):
        from difflib import get_close_matches

        near = get_close_matches(last, [*NAMED, *ALIASES], n=1)
        hint = (
            f"did you mean {near[0]}?"
            if near
            else "keys are one character, or a name such as enter, pageup, f2, ctrl+p"
        )
        raise ValueError(f"no such key: {text!a}; {hint}")
    name = "+".join([*(name for name in MODIFIERS if name in modifiers), last])
    return _SENT_AS.get(name, name)


def shown(key: str, *, ascii: bool = False) -> str:
    """The key as the footer and the help print it: esc, pgup, an arrow; ^p for ctrl+p."""
    *modifiers, last = [key] if len(key) == 1 else key.split("+")
    last = _SHORT.get(last, last if ascii else _ARROWS.get(last, last))
    if modifiers == ["ctrl"] and len(last) == 1:
        return f"^{last}"
    return "+".join([*modifiers, last])
