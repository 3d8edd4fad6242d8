"""What the Judge tab says, as data: the numbers are those of `rltui judge --json`. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rltui.model.judge_feed import JudgeFeed

Json = dict[str, Any]


def judge_view(feed: JudgeFeed, status: Mapping[str, Any] | None) -> Json:
    """`now`: calls in flight, null of a run that has ended; `stuck`: the oldest is past its limit."""
    pipeline = (status or {}).get("pipeline") or {}
    running = (status or {}).get("finished_at") is None
    oldest = pipeline.get("judge_oldest_s")
    limit = feed.timeout_s
    now = {
        "in_flight": pipeline.get("judge_in_flight") or 0,
        "queued": pipeline.get("judge_queued") or 0,
        "oldest_s": oldest,
        "stuck": oldest is not None and limit is not None and oldest > limit,
    }
    bad = feed.bad
    return {
        **(feed.who or {}),
        **feed.calls.totals(),
        "again": feed.again,
        "timeouts": feed.timeouts,
        "timeout_s": limit,
        "recent": feed.recent,
        "now": now if running else None,
        "bad": None if bad is None else {name: bad.get(name) for name in ("code", "reply", "t_start", "step", "cid")},
    }
