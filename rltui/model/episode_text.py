"""The turns of an episode as folds: a head whose numbers stand in columns, then who said what."""

from __future__ import annotations

import json
from typing import Any

from rltui.model.paragraphs import Fold, Node, Paragraph, fixed, readable, text_paragraphs
from rltui.model.token_lines import token_lines
from rltui.model.xray import Xray
from rltui.sources.base import Json
from trainer.taskapp.reading import finite, listing, mapping

LONG_THINKING = 240  # characters, or this many lines, from which thinking is folded at first
LONG_THINKING_LINES = 4
_GAP = "  "
_NUMBERS = 3  # of the columns in a head; the others are words


def turns_of(episode: Json, view: str, xray: Xray | None) -> list[Node]:
    """A fold a turn; its body is the conversation, its tokens, or (view "recorded") the record itself."""
    turns = [mapping(turn) for turn in listing(episode.get("turns"))]
    heads = _columns([_numbers(turn, episode) for turn in turns])
    nodes: list[Node] = []
    for index, (turn, right) in enumerate(zip(turns, heads, strict=True)):
        before = turns[index - 1] if index else None
        name = f"turn {int(finite(turn.get('t')) or 0) if turn.get('t') is not None else index}"

        def make(turn: Json = turn, before: Json | None = before, index: int = index) -> list[Node]:
            if view == "tokens":
                return token_lines(turn, before, xray, index)
            return _raw(turn) if view == "recorded" else _spoken(turn, before, episode)

        nodes.append(Fold(Paragraph(name, "title", right=right), make, turn=index, chars=_chars(turn)))
    return nodes


def _numbers(turn: Json, episode: Json) -> list[str]:
    """Tokens, time, reward, finish reason and weight versions; "" for what is not known."""
    span = [int(found) for edge in listing(turn.get("span")) if (found := finite(edge)) is not None]
    tokens = f"{span[1] - span[0]} tok" if len(span) == 2 else ""
    start, end = finite(turn.get("t_start")), finite(turn.get("t_end"))
    took = _duration(end - start) if start is not None and end is not None else ""
    reward = fixed(turn.get("reward"))
    finish = readable(turn.get("finish_reason"))[:14]
    return [tokens, took, f"reward {reward}" if reward else "", finish, _versions(turn, span, episode)]


def _columns(rows: list[list[str]]) -> list[str]:
    """The rows with their cells in columns; a column that is empty in all rows is not there."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        _GAP.join(
            cell.rjust(width) if column < _NUMBERS else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
            if width
        )
        for row in rows
    ]


def _duration(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if abs(seconds) < 1 else f"{seconds:.1f} s"


def _versions(turn: Json, span: list[int], episode: Json) -> str:
    """The weights that wrote it: v411→v412 when they changed in its middle."""
    if len(span) != 2:
        return ""
    seen: list[str] = []
    for part in listing(_branch(turn, episode).get("spans")):
        start, end = finite(mapping(part).get("start")), finite(mapping(part).get("end"))
        if start is not None and end is not None and start < span[1] and end > span[0]:
            seen.append(f"v{mapping(part).get('weight_version')}")
    return "→".join(dict.fromkeys(seen))


def _branch(turn: Json, episode: Json) -> Json:
    branches, at = listing(episode.get("branches")), turn.get("branch")
    return mapping(branches[at]) if isinstance(at, int) and 0 <= at < len(branches) else {}


def _chars(turn: Json) -> int:
    return sum(
        len(part)
        for message in map(mapping, listing(turn.get("messages")))
        for part in (message.get("text"), message.get("reasoning"))
        if isinstance(part, (str, list))
        for part in ([part] if isinstance(part, str) else part)
        if isinstance(part, str)
    )


def _raw(turn: Json) -> list[Node]:
    return list(text_paragraphs(json.dumps(turn, ensure_ascii=False, indent=2), "dim"))


def _spoken(turn: Json, before: Json | None, episode: Json) -> list[Node]:
    nodes: list[Node] = []
    if before is not None and turn.get("branch") != before.get("branch"):
        weight = fixed(_branch(turn, episode).get("weight"), 2)
        weighs = f", which weighs {weight}" if weight else ""
        said = f"does not continue the recorded tokens: branch {turn.get('branch')} begins{weighs}"
        nodes.append(Paragraph(said, "watch", "fork", "watch"))
    if tools := listing(turn.get("tools")):
        names = ", ".join(_tool_name(tool) for tool in tools)
        body: list[Node] = list(text_paragraphs(json.dumps(tools, ensure_ascii=False, indent=2), "dim"))
        nodes.append(Fold(Paragraph(names, "dim", "tools"), lambda: body))
    for message in map(mapping, listing(turn.get("messages"))):
        nodes += _message(message)
    if notes := _notes(turn):
        nodes.append(Paragraph(notes, "dim", "score"))
    return nodes


def _message(message: Json) -> list[Node]:
    role = readable(message.get("role")) or "?"
    style = f"role_{role}" if role in ("system", "user", "assistant", "tool") else "dim"
    label = readable(message.get("name")) or role if role == "tool" else role
    nodes: list[Node] = []
    thinking = readable(message.get("reasoning")).strip()
    if thinking:
        nodes.append(_thinking(thinking))
    calls = [mapping(call) for call in listing(message.get("tool_calls"))]
    text = readable(message.get("text"))
    if text.strip() or not (calls or thinking):
        nodes += text_paragraphs(text or "(nothing)", "text" if text.strip() else "dim", label, style)
    for call in calls:
        nodes += text_paragraphs(_call(call), "role_tool", "call", "role_tool")
    return nodes


def _thinking(text: str) -> Fold:
    lines = text.count("\n") + 1
    long = len(text) > LONG_THINKING or lines > LONG_THINKING_LINES
    size = f"{lines} line{'s' if lines > 1 else ''}, {len(text):,} characters".replace(",", " ").replace("  ", ", ")
    head = Paragraph(text[:200].replace("\n", " "), "dim", "thinking", right=size)

    return Fold(head, lambda: list(text_paragraphs(text, "dim")), open=not long, thinking=True, chars=len(text))


def _call(call: Json) -> str:
    """`name(key=value, …)`; arguments that are no JSON object stand as they came."""
    function = mapping(call.get("function")) or call
    name, given = readable(function.get("name")) or "?", function.get("arguments", "")
    if isinstance(given, str):
        try:
            given = json.loads(given) if given.strip() else {}
        except (ValueError, RecursionError):
            return f"{name}({given})"
    if not isinstance(given, dict):
        return f"{name}({json.dumps(given, ensure_ascii=False)})"
    return f"{name}({', '.join(f'{key}={_argument(value)}' for key, value in given.items())})"


def _argument(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _tool_name(tool: Any) -> str:
    return readable(mapping(mapping(tool).get("function")).get("name") or mapping(tool).get("name")) or "?"


def _notes(turn: Json) -> str:
    """What the environment and the judge said of the turn, beyond its reward."""
    parts = [
        f"{name} {fixed(turn.get(key))}"
        for key, name in (("event_reward", "event reward"), ("step_r", "step reward"), ("judge", "judge"))
        if finite(turn.get(key)) is not None
    ]
    achieved = turn.get("achievements")
    if achieved:
        parts.append(f"achieved {json.dumps(achieved, ensure_ascii=False)[:200]}")
    parts += [name for name in ("done", "truncated") if turn.get(name) is True]
    return " · ".join(parts)
