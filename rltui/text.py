"""Text from models, task apps and logs is data: `clean` makes it one safe line, `fit` cuts it to cells.

A reply must not be able to repaint the screen, move the cursor, write the clipboard or reorder what stands
beside it.
"""

from __future__ import annotations

import re
import unicodedata

MARK = "\ufffd"  # stands where something unprintable was, so that a reader sees that text was taken out
ELLIPSIS = "…"
MAX_COMBINING = 4  # marks on one letter; real scripts need fewer

# Whole escape sequences go, with their payload: what an OSC or DCS carries is a command, not text. An
# unfinished string sequence ends at the line's end, so that it cannot swallow the rest of a long text.
_ESCAPES = re.compile(
    # OSC, DCS, SOS, PM, APC
    r"(?:\x1b[\]PX^_]|[\x90\x98\x9d\x9e\x9f])[^\x07\x1b\x9c\r\n]*(?:\x07|\x1b\\|\x9c)?"
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"  # CSI
    r"|\x1b[ -/]*[0-~]?"  # the short ones
)
_SPACES = re.compile(r"\s+")
_BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_JOINERS = frozenset("\u200c\u200d")  # several scripts and emoji cannot be written without them


def clean(value: object, limit: int = 500) -> str:
    """`value` as one printable line of at most `limit` characters, longer ones ending in an ellipsis.

    Escape sequences and control characters are dropped, runs of white space become one space, bidi controls
    and lone surrogates become a visible mark. The length is capped first, so a huge input costs no more.
    """
    text = value if isinstance(value, str) else str(value)
    window = max(limit, 1) * 4  # room for what is dropped below
    cut = len(text) > window
    text = _ESCAPES.sub("", text[:window])
    text = _SPACES.sub(" ", "".join(_safe(text))).strip()
    if len(text) > limit:
        text, cut = text[: max(limit - 1, 0)], True
    return text + ELLIPSIS if cut else text


def plain(text: str) -> str:
    """Words that may hold a name, over several lines: as `clean`, with the line ends and the indentation kept."""
    return "\n".join("".join(_safe(_ESCAPES.sub("", line))) for line in text.split("\n"))


def _safe(text: str) -> list[str]:
    kept: list[str] = []
    combining = 0
    for char in text:
        kind = unicodedata.category(char)
        combining = combining + 1 if kind in ("Mn", "Me") else 0
        if combining > MAX_COMBINING:
            continue
        if char in "\t\n\r\v\f\x85" or kind in ("Zl", "Zp"):
            kept.append(" ")
        elif char in _BIDI or kind in ("Cs", "Cn", "Co"):
            kept.append(MARK)
        elif kind == "Cc" or (kind == "Cf" and char not in _JOINERS):
            continue
        else:
            kept.append(char)
    return kept


def width(text: str) -> int:
    """Terminal cells that cleaned `text` takes: wide characters count 2, combining ones 0."""
    cells = 0
    for char in text:
        if char in _JOINERS or unicodedata.category(char) in ("Mn", "Me"):
            continue
        cells += 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1
    return cells


def fit(text: str, cells: int) -> str:
    """Cleaned `text` in at most `cells` terminal cells; a cut is shown by an ellipsis."""
    if width(text) <= cells:
        return text
    if cells < 1:
        return ""
    used, kept = 0, []
    for char in text:
        used += width(char)
        if used > cells - 1:
            break
        kept.append(char)
    return "".join(kept) + ELLIPSIS
