"""Two texts word by word: what both have, what only the first has, what only the second. Pure."""

from __future__ import annotations

import json
import re
from difflib import SequenceMatcher
from typing import Literal

from rltui.model.paragraphs import readable
from rltui.sources.base import Json
from trainer.taskapp.reading import listing, mapping

Kind = Literal["same", "first", "second"]
MOST_WORDS = 4_000  # of each text, beyond which frequent words are taken for noise: it would take seconds
_WORD = re.compile(r"\s+|\w+|[^\w\s]")


def word_diff(first: str, second: str) -> list[tuple[Kind, str]]:
    """Pieces in order; joined, those of same and first are the first text, those of same and second the second."""
    a, b = _WORD.findall(first), _WORD.findall(second)
    matcher = SequenceMatcher(None, a, b, autojunk=max(len(a), len(b)) > MOST_WORDS)
    found: list[tuple[Kind, str]] = []
    for kind, a0, a1, b0, b1 in matcher.get_opcodes():
        if kind == "equal":
            found.append(("same", "".join(a[a0:a1])))
            continue
        if a0 < a1:
            found.append(("first", "".join(a[a0:a1])))
        if b0 < b1:
            found.append(("second", "".join(b[b0:b1])))
    return found


Piece = tuple[Kind | Literal["head"], str]


def episode_diff(first: Json, second: Json) -> list[list[Piece]]:
    """Lines of pieces: turn by turn, message by message."""
    lines: list[list[Piece]] = []
    turns = (listing(first.get("turns")), listing(second.get("turns")))
    for t in range(max(map(len, turns))):
        lines.append([("head", f"turn {t}")])
        a, b = (_messages(turn[t]) if t < len(turn) else [] for turn in turns)
        for m in range(max(len(a), len(b))):
            role, one = a[m] if m < len(a) else (b[m][0], "")
            other = b[m][1] if m < len(b) else ""
            lines += _by_line([("same", f"{role}: "), *word_diff(one, other)])
    return lines


def _messages(turn: Json) -> list[tuple[str, str]]:
    found = []
    for message in map(mapping, listing(mapping(turn).get("messages"))):
        calls = "\n".join(json.dumps(call, ensure_ascii=False) for call in listing(message.get("tool_calls")))
        parts = (readable(message.get("reasoning")), readable(message.get("text")), calls)
        found.append((readable(message.get("role")) or "?", "\n".join(filter(None, parts))))
    return found


def _by_line(pieces: list[Piece]) -> list[list[Piece]]:
    lines: list[list[Piece]] = [[]]
    for kind, text in pieces:
        for at, part in enumerate(text.split("\n")):
            if at:
                lines.append([])
            if part:
                lines[-1].append((kind, part))
    return lines
