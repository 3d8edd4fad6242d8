"""A member of a group in a narrow column: its facts, and what was said turn by turn. Pure."""

from __future__ import annotations

import json

from rltui.model.episode_query import value_of
from rltui.model.episode_top import exclusions
from rltui.model.group_view import Member
from rltui.model.paragraphs import fixed, readable
from rltui.model.xray import Xray, strip
from rltui.sources.base import Json
from rltui.text import clean
from rltui.text_lines import pieces, printable, wrap
from trainer.taskapp.reading import finite, listing, mapping

Row = tuple[str, str]  # text and the name of its style
FACTS = 6
MOST = 20_000  # characters of a message that are shown; the transcript has all
THINKING_ROWS = 3


def facts(member: Member, updates: Json | None, cells: int) -> list[Row]:
    """FACTS rows, then the sentences of why it was left out."""
    row = member.row
    reward, advantage, s = (value_of(name, row) for name in ("reward", "advantage", "s"))
    env, judge = value_of("env", row), value_of("judge", row)
    excluded = row.get("excl") is not None
    clip = row.get("clip") if row.get("clip") in ("low", "high") else ""
    trained = [f"A {advantage:+.2f}" if advantage is not None else "A -"]
    trained += [f"s {s:.4f}"] if s is not None else []
    said = [f"env {fixed(env, 2)}"] if env is not None else []
    said += [f"judge {fixed(judge, 2)}" + (" ≠" if member.differs else "")] if judge is not None else []
    versions = [f"v{version}" for version in dict.fromkeys(listing(row.get("ver"))) if version is not None]
    lag, length, turns_ = (value_of(name, row) for name in ("lag", "length", "turns"))
    rows: list[Row] = [
        (
            f"#{_whole(row.get('member'))}  "
            + ("EXCLUDED  " if excluded else "")
            + f"reward {fixed(reward, 2) or 'none'}",
            "watch" if excluded else "strong",
        ),
        (
            "  ".join([*trained, *([f"clip{'↓' if clip == 'low' else '↑'}"] if clip else [])]),
            "watch" if clip else "text",
        ),
        ("  ".join(said) or "no score", "watch" if member.differs else "text"),
        (f"{_whole(length)} tok  {_whole(turns_)} turn{'' if turns_ == 1 else 's'}", "text"),
        (f"stop: {clean(row.get('stop') or '-', 40)}", "text" if row.get("stop") == "completed" else "watch"),
        ("→".join(versions) + (f"  lag {lag:.0f}" if lag is not None else ""), "dim"),
    ]
    if excluded:
        for sentence in exclusions(row, updates or {"excl": row.get("excl")}):
            rows += [(part, "watch") for part in wrap(printable(sentence), cells)]
    return rows


def turns(episode: Json | None, xray: Xray | None, mode: str, cells: int) -> list[list[Row | list[float]]]:
    """By turn: its rows; a list of levels is a strip of `mode` over the turn's sampled tokens."""
    found: list[list[Row | list[float]]] = []
    for index, turn in enumerate(map(mapping, listing((episode or {}).get("turns")))):
        rows: list[Row | list[float]] = []
        reward = finite(turn.get("reward"))
        for message in map(mapping, listing(turn.get("messages"))):
            rows += _message(message, cells)
        at, which = finite(turn.get("t")), finite(turn.get("branch"))
        places = xray.in_turn(int(which or 0), int(at) if at is not None else index) if xray is not None else None
        if xray is not None and places is not None and mode not in xray.missing:
            levels = strip(xray, mode, *places, max(1, cells - len(mode) - 1))
            if levels:
                rows.append(levels)
        head = f"turn {int(at) if at is not None else index}" + (f"  {reward:.3g}" if reward else "")
        found.append([(head, "title"), *rows])
    return found


def _message(message: Json, cells: int) -> list[Row]:
    role = readable(message.get("role"))
    own = role == "assistant"
    rows: list[Row] = []
    thinking = _wrapped(readable(message.get("reasoning")).strip(), cells)
    rows += [(row, "dim") for row in thinking[:THINKING_ROWS]]
    if len(thinking) > THINKING_ROWS:
        rows.append((f"… {len(thinking) - THINKING_ROWS} rows of thinking", "dim"))
    text = readable(message.get("text")).strip("\n")
    for call in map(mapping, listing(message.get("tool_calls"))):
        function = mapping(call.get("function")) or call
        arguments = function.get("arguments", "")
        arguments = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        text += f"{chr(10) if text else ''}{readable(function.get('name'))}({arguments})"
    cut = len(text) - MOST
    for at, row in enumerate(_wrapped(text[:MOST], cells - 2 if own else cells)):
        rows.append((("> " if not at else "  ") + row if own else row, "role_assistant" if own and not at else "text"))
    if cut > 0:
        rows.append((f"… {cut} more characters", "dim"))
    return rows


def _wrapped(text: str, cells: int) -> list[str]:
    return [row for piece in pieces(text) for row in wrap(printable(piece), max(1, cells))] if text else []


def _whole(value: object) -> str:
    return f"{value:.0f}" if isinstance(value, int | float) and not isinstance(value, bool) else "-"
