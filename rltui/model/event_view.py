"""Events of a run as a timeline: which of them are told, and each as data and as a line. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from rltui.model.progress import epoch
from rltui.text import clean

# What comes every step or so: the charts show it.
LEFT_OUT = frozenset({"rl.train.step", "rl.metrics", "rl.heartbeat", "rl.phase", "rl.weight_sync"})
LOG = "events"  # the name of the timeline among the logs of a run
Event = Mapping[str, Any]
_WORDS = {"warning": "WARNING", "error": "ERROR"}


def told(events: Iterable[Event]) -> list[Event]:
    """Those that say something, each message once: the failure of a training is one of its job, too."""
    found: list[Event] = []
    for event in events:
        words = event.get("message") or event.get("type")
        quiet = event.get("level") not in _WORDS
        if not words or (quiet and event.get("type") in LEFT_OUT):
            continue
        if not found or found[-1].get("message") != event.get("message"):
            found.append(event)
    return found


def rule_of(event: Event) -> str:
    """The Doctor's rule that it is about; "" for none."""
    data = event.get("data")
    rule = data.get("rule") if event.get("type") == "rl.health" and isinstance(data, dict) else None
    return rule if isinstance(rule, str) else ""


def row(event: Event) -> dict[str, Any]:
    """An event as the verbs print it; `time` in epoch seconds."""
    return {
        "seq": event.get("seq"),
        "time": epoch(event.get("created_at")),
        "attempt": event.get("attempt"),
        "step": event.get("step"),
        "type": clean(event.get("type") or "", 100),
        "level": clean(event.get("level") or "info", 20),
        "message": clean(event.get("message") or "", 600),
        "data": event.get("data"),
    }


def line(event: Event) -> str:
    """An event as a line of a log of ours: 'ISO-time LEVEL type: message'."""
    at = epoch(event.get("created_at"))
    moment = datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds") if at is not None else ""
    level = _WORDS.get(str(event.get("level")), "INFO")
    words = clean(event.get("message") or "", 600)
    step = f"step {event['step']}" if event.get("step") else ""
    if step and step not in words:
        words = f"{step}: {words}"
    return f"{moment.replace('+00:00', 'Z')} {level} {clean(event.get('type') or '', 100)}: {words}"
