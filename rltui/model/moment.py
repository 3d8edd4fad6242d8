"""A time as a person types it, as a moment of a run. Pure."""

from __future__ import annotations

import re
import time
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from rltui.model.progress import epoch

if TYPE_CHECKING:
    from rltui.model.run import RunModel

_CLOCK = re.compile(r"(\d{1,2}):(\d\d)(?::(\d\d))?\Z")
_STEP = re.compile(r"(?:step\s*)(\d{1,12})\Z", re.IGNORECASE)
WRONG = "no time: give HH:MM, HH:MM:SS, YYYY-MM-DD HH:MM, or step N"


def moment(text: str, model: RunModel | None) -> float:
    """Epoch seconds. A clock without a date means its last time that lies within the run, in this machine's zone.

    Raises:
        ValueError: it names no time of the run; the text says what it may be.
    """
    text = text.strip()
    if step := _STEP.match(text):
        return _of_step(int(step[1]), model)
    if found := _CLOCK.match(text):
        hour, minute, second = (int(part or 0) for part in found.groups())
        if hour > 23 or minute > 59 or second > 59:
            raise ValueError(WRONG)
        return _of_clock(timedelta(hours=hour, minutes=minute, seconds=second), model)
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(WRONG) from None
    return at.timestamp()


def _of_step(step: int, model: RunModel | None) -> float:
    times = model.metrics.labels["time"] if model is not None else None
    point = times.at(step) if times is not None else None
    if point is None or point[0] != step:
        raise ValueError(f"the run has no step {step}")
    return point[1]


def _of_clock(clock: timedelta, model: RunModel | None) -> float:
    status = (model.status if model is not None else None) or {}
    last = epoch(status.get("finished_at")) or epoch(status.get("updated_at")) or time.time()
    day = datetime.fromtimestamp(last).replace(hour=0, minute=0, second=0, microsecond=0)
    at = day + clock
    return (at if at.timestamp() <= last else at - timedelta(days=1)).timestamp()
