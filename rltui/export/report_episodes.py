"""Episodes for the page about a run: of the last iteration the best, one in the middle and the worst."""

from __future__ import annotations

import json
from collections.abc import Iterator
from html import escape
from typing import Any

from rltui.charts.numbers import number
from rltui.model.run import RunModel
from rltui.sources.base import Json, Unreadable
from rltui.text import clean
from rltui.text_lines import pieces, printable

LOOKED = 2_000  # episodes from the end, among which the last iteration is looked for
MOST_CHARS = 6_000  # of a message
MOST_TURNS = 40


def episodes(model: RunModel) -> list[str]:
    """A section; none without episodes."""
    chosen = _chosen(model)
    if not chosen:
        return []
    parts = [f"<h2>Episodes of iteration {chosen[0][1].get('iteration')}</h2>"]
    for word, row in chosen:
        try:
            episode = model.source.episode(row["n"])
        except Unreadable:
            episode = None
        about = f"seed {row.get('seed')}, {row.get('turns')} turns, {clean(row.get('stop') or '', 40)}"
        head = f"<b>{word}</b> reward {number(row['R'])} <span class='dim'>{escape(about)}</span>"
        body = "".join(_turns(episode)) if episode else '<p class="dim">Its text was removed.</p>'
        parts.append(f"<details><summary>{head}</summary>{body}</details>")
    return parts


def _chosen(model: RunModel) -> list[tuple[str, Json]]:
    count = model.episodes.recorded
    try:
        rows = model.source.index(max(0, count - LOOKED), count)
    except Unreadable:
        return []
    rows = [row for row in rows if row.get("split") == "train" and type(row.get("R")) in (int, float)]
    last = max((row.get("iteration") or 0 for row in rows), default=0)
    rows = sorted((row for row in rows if row.get("iteration") == last), key=lambda row: row["R"], reverse=True)
    found = {"best": rows[:1], "median": rows[len(rows) // 2 :][:1], "worst": rows[-1:]}
    chosen: dict[int, tuple[str, Json]] = {}
    for word, some in found.items():
        for row in some:
            chosen.setdefault(row["n"], (word, row))
    return list(chosen.values())


def _turns(episode: Json) -> Iterator[str]:
    turns = episode.get("turns")
    for turn in turns[:MOST_TURNS] if isinstance(turns, list) else ():
        messages = turn.get("messages") if isinstance(turn, dict) else None
        for message in messages if isinstance(messages, list) else ():
            if isinstance(message, dict):
                yield from _message(message)
    if isinstance(turns, list) and len(turns) > MOST_TURNS:
        yield f'<p class="dim">{len(turns) - MOST_TURNS} more turns</p>'


def _message(message: Json) -> Iterator[str]:
    yield f'<div class="role">{escape(clean(message.get("role") or "", 40))}</div>'
    for name in ("reasoning", "text"):
        if message.get(name):
            yield f"<pre>{_lines(message[name])}</pre>"
    if message.get("tool_calls"):
        yield f"<pre>{_lines(json.dumps(message['tool_calls'], ensure_ascii=False))}</pre>"


def _lines(text: Any) -> str:
    whole = text if isinstance(text, str) else json.dumps(text, ensure_ascii=False)
    shown = "\n".join(printable(piece) for piece in pieces(whole[:MOST_CHARS]))
    more = f"\n… {len(whole) - MOST_CHARS:,} more characters" if len(whole) > MOST_CHARS else ""
    return escape(shown) + more
