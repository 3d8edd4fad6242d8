"""What was done to a run, as marks on its charts. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rltui.charts.parts import Mark
from rltui.text import clean
from rltui.words import short

MARKED = {
    "set",
    "checkpoint",
    "evaluate",
    "pause",
    "resume",
    "stop",
}  # requests that leave a mark; kill writes nothing after it


def marks(events: Iterable[Mapping[str, Any]]) -> tuple[Mark, ...]:
    """Where a request of a person was carried out, and where an attempt went on; rising in x."""
    found = []
    for event in events:
        data: Mapping[str, Any] = event.get("data") or {}
        if event.get("type") == "rl.control.done" and data.get("action") in MARKED:
            found.append(Mark(_number(event.get("step")), _label(data)))
        elif event.get("type") == "rl.resumed" and isinstance(data.get("from_step"), int):
            found.append(Mark(float(data["from_step"]), f"attempt {event.get('attempt')}"))
    return tuple(sorted(found, key=lambda mark: mark.x))


def _label(data: Mapping[str, Any]) -> str:
    """ "checkpoint", "learning_rate 1.0e-05"."""
    new = data.get("new")
    if data["action"] != "set" or not isinstance(new, Mapping) or not new:
        return str(data["action"])
    return ", ".join(f"{clean(key, 60).rpartition('.')[2]} {_value(value)}" for key, value in new.items())


def _value(value: object) -> str:
    return short(value) if isinstance(value, float) else clean(value, 20)


def _number(step: object) -> float:
    return float(step) if isinstance(step, int) else 0.0
