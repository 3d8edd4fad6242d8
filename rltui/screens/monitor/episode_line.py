"""One episode in one line of the list."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.segment import Segment

from rltui.model.episode_list import plain
from rltui.model.episode_query import number_of
from rltui.screens.runs_line import padded
from rltui.text import clean

if TYPE_CHECKING:
    from rltui.look.look import Look

# (title, cells, right-aligned); `end` takes the rest
_COLUMNS = (("iter", 5, True), ("seed", 6, True), ("group", 6, True), ("reward", 7, True), ("turn", 4, True))
_MORE = (("tokens", 6, True), ("adv", 6, True), ("s", 7, True), ("lag", 3, True))  # as far as there is room
END_LEAST = 13  # the longest that is usual: zero_variance


def head(cells: int, look: Look) -> list[Segment]:
    """The names of the columns."""
    text = "".join(f" {title:>{size}}" for title, size, _ in columns(cells)) + "  end"
    return [Segment(text, look.style("dim"))]


def columns(cells: int) -> list[tuple[str, int, bool]]:
    """What fits beside the reason for the end."""
    found = list(_COLUMNS)
    for column in _MORE:
        if cells < sum(size + 1 for _, size, _ in [*found, column]) + 2 + END_LEAST:
            break
        found.append(column)
    return found


def line(row: Mapping[str, Any], cells: int, look: Look) -> list[Segment]:
    style = look.style
    if "iteration" not in row:
        return [Segment(padded(f"  episode {row.get('n')} cannot be read", cells), style("act"))]
    excluded = row.get("excl")
    base = "dim" if excluded else "text"
    group = f"{_int(row.get('group'))}.{_int(row.get('member'))}" if row.get("group") is not None else "eval"
    values = {
        "iter": _int(row.get("iteration")),
        "seed": _int(row.get("seed")),
        "group": group if row.get("split") != "eval" else "eval",
        "reward": _reward(row.get("R")),
        "turn": _int(row.get("turns")),
        "tokens": plain(row.get("tok")),
        "adv": _number(row.get("adv"), "+.2f"),
        "s": _number(row.get("s"), ".4f"),
        "lag": plain(row.get("lag")),
    }
    shown = columns(cells)
    before = [(title, size) for title, size, _ in shown]
    at = [title for title, _ in before].index("reward")
    left = "".join(f" {values[title][:size]:>{size}}" for title, size in before[:at])
    right = "".join(f" {values[title][:size]:>{size}}" for title, size in before[at + 1 :])
    end = clean(excluded or row.get("stop") or "", 60)
    clip = row.get("clip") if row.get("clip") in ("low", "high") else ""
    rest = cells - sum(size + 1 for _, size in before) - 2
    end += f"  clip {clip}" if clip and len(end) + len(clip) + 7 <= rest else ""
    good = not clip and row.get("stop") == "completed" and not excluded
    return [
        Segment(left, style(base)),
        Segment(f" {values['reward'][:7]:>7}", style(base if excluded else "strong")),
        Segment(right, style(base)),
        Segment("  " + padded(end, rest), style("dim" if good else "watch")),
    ]


def _int(value: Any) -> str:
    return str(value) if isinstance(value, int) else "-"


def _reward(value: Any) -> str:
    return _number(value, ".3f")


def _number(value: Any, form: str) -> str:
    found = number_of(value)
    return "-" if found is None else format(found, form)
