"""The two lines at the top of the monitor, as data: where the run is, and how fresh that is. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rltui.model.doing import doing, held
from rltui.sources.base import TERMINAL
from rltui.text import clean, fit, width
from rltui.words import duration, short

if TYPE_CHECKING:
    from rltui.look.look import Look
    from rltui.widgets.bar import Part

Status = Mapping[str, Any]
BAR_CELLS = (4, 24)  # least, most
DOING_LEAST = 24  # cells, below which what it does is not said
STATUS_S = 2.0  # between two writings of a status


def progress(status: Status | None, look: Look, cells: int, now: float) -> list[Part]:
    """Step, bar, share, elapsed, left, weights version, lag, what was left out; as much as fits into `cells`.

    What it does now changes twice a second, so it stands last and moves none of the others.
    """
    style = look.style
    if not status or not status.get("step"):
        return _before_the_first(status, look, cells, now)
    done, total = status.get("step") or 0, (status.get("totals") or {}).get("steps")
    ended = status.get("state") in TERMINAL
    facts = _facts(status, ended, now)
    head = f" step {done}/{total} " if total else f" step {done} "
    share = f" {100 * done / total:.1f} %" if total else ""
    room = cells - width(head) - width(share) - 1
    while facts and sum(width(text) + 2 for text, _ in facts) > room:  # the bar has what they leave
        facts.pop()
    bar = min(BAR_CELLS[1], room - sum(width(text) + 2 for text, _ in facts)) if total else 0
    parts: list[Part] = [(head, style("strong"))]
    if total and bar >= BAR_CELLS[0]:
        full = round(bar * min(1.0, done / total))
        parts.append((look.glyph("bar_full") * full, style("accent")))
        parts.append((look.glyph("bar_empty") * (bar - full), style("grid")))
    parts.append((share, style("text")))
    parts += [(f"  {text}", style(name)) for text, name in facts]
    rest = cells - sum(width(text) for text, _ in parts) - 3
    if rest >= DOING_LEAST and not ended and not held(status) and status.get("waiting"):
        parts.append((f"  {fit(doing(status, now), rest)}", style("dim")))
    return parts


def _before_the_first(status: Status | None, look: Look, cells: int, now: float) -> list[Part]:
    if status and status.get("state") in TERMINAL:
        text, name = why(status) or f"{status['state']} before its first step", "act"
    else:
        text, name = f"Waiting for the first step: {doing(status or {}, now)}", "text"
    return [(f" {fit(text, cells - 2)}", look.style(name))]


def why(status: Status | None) -> str:
    """The cause of a failure with what to do, in one line; "" if there is none."""
    error = (status or {}).get("error") or {}
    words = [clean(error.get(name), 400) for name in ("message", "hint") if error.get(name)]
    return "  ".join(words)


def _facts(status: Status, ended: bool, now: float) -> list[tuple[str, str]]:
    """(text, style), most important first."""
    facts = []
    if not ended and held(status):
        facts.append((doing(status, now), "watch"))
    facts.append((f"elapsed {duration(elapsed(status, now))}", "text"))
    if not ended and status.get("eta_s") is not None:
        facts.append((f"left ~{duration(status['eta_s'])}", "text"))
    facts.append((f"weights v{status.get('weight_version') or 0}", "text"))
    lag = status.get("lag") or {}
    if lag.get("mean") is not None:
        facts.append((f"lag {short(lag['mean'])} max {lag.get('max')}", "text"))
    episodes = status.get("episodes") or {}
    played = (episodes.get("accepted") or 0) + (episodes.get("excluded") or 0)
    if played:
        facts.append((f"excluded {100 * (episodes.get('excluded') or 0) / played:.1f} %", "text"))
    return facts


def elapsed(status: Status, now: float) -> float | None:
    """Seconds in all attempts, counted on since the status was written while the run goes on."""
    seconds: float | None = status.get("elapsed_s")
    at = epoch(status.get("updated_at"))
    if seconds is None or status.get("state") in TERMINAL or status.get("silent") or at is None:
        return seconds
    return seconds + min(STATUS_S, max(0.0, now - at))


def epoch(iso: Any) -> float | None:
    """Epoch seconds of an ISO 8601 time; None for what is no time."""
    try:
        return datetime.fromisoformat(iso).timestamp()
    except (TypeError, ValueError):
        return None


def freshness(live: bool, age_s: float, error: str | None, period_s: float) -> tuple[str, str]:
    """(text, style) of how fresh the data are. `age_s`: since the place of the run answered last."""
    if error:
        return f"stale {duration(age_s)}: {clean(error, 120)}", "watch"
    if not live:
        return "ended", "dim"
    rate = 1 / period_s
    return f"live, {rate:g} Hz", "dim"
