"""How the calls of a judge are told: who judges, what goes on now, what it took, and its last bad reply. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from time import localtime, strftime
from typing import TYPE_CHECKING, Any

from rltui.model.pipeline_text import seconds
from rltui.text import clean
from rltui.text_lines import wrap
from rltui.words import amount

if TYPE_CHECKING:
    from rltui.look.look import Look

View = Mapping[str, Any]
Row = list[tuple[str, str]]  # parts: text, name of a style
_NAME = 9
_REPLY = 6  # rows


def call_rows(view: View, cells: int, look: Look) -> list[Row]:
    """Rows of name and text, wrapped."""
    room = max(20, cells - _NAME - 2)
    rows: list[Row] = []
    for name, text, style in _said(view):
        lines = wrap(text, room)
        cut = lines[:_REPLY] if name == "last bad" else lines
        for at, line in enumerate(cut):
            rows.append([(f" {name if not at else '':<{_NAME}} ", "dim"), (line, style)])
    return rows


def _said(view: View) -> Iterator[tuple[str, str, str]]:
    now = view["now"]
    if now is not None:
        limit = f", limit {view['timeout_s']:g} s" if view["timeout_s"] is not None else ""
        if now["stuck"]:
            yield "now", f"STUCK: the oldest call is {seconds(now['oldest_s'])} old{limit}", "act"
        oldest = f", the oldest {seconds(now['oldest_s'])} old{limit}" if now["oldest_s"] is not None else ""
        yield "in flight", f"{now['in_flight']} calls, {now['queued']} queued{oldest}", "text"
    yield "judge", _who(view), "text"
    rubric = clean(view.get("rubric_id") or view.get("rubric_hash") or "not known", 80)
    yield "rubric", rubric, "text"
    yield "calls", f"{view['tries']}, {view['cached']} known already, {view['again']} tried again", "text"
    yield "time", f"p50 {seconds(view['latency_p50_s'])}, p95 {seconds(view['latency_p95_s'])}, of all calls", "text"
    failed = ", ".join(f"{clean(code.removeprefix('judge_'), 40)} {n}" for code, n in view["failed"].items())
    timeouts = f", {view['timeouts']} of them timeouts" if view["timeouts"] else ""
    yield "no scores", f"{failed}{timeouts}" if failed else "none", "watch" if failed else "text"
    estimated = "~" if view["cost_estimated"] else ""
    cost = f"{estimated}{view['cost_usd']:.4f} $" if view["cost_usd"] is not None else "at an unknown price"
    yield "cost", f"{cost}, {amount(view['tokens_in'])} + {amount(view['tokens_out'])} tokens", "text"
    bad = view["bad"]
    if bad is not None:
        clock = f"{strftime('%H:%M:%S', localtime(bad['t_start']))} " if type(bad["t_start"]) in (int, float) else ""
        reply = clean(bad["reply"], 600) if bad["reply"] else "no reply came"
        yield "last bad", f"{clock}{clean(bad['code'] or '?', 40).removeprefix('judge_')}: {reply}", "text"
    yield "try", "another rubric on these episodes: rltui rejudge RUN --rubric FILE", "dim"


def _who(view: View) -> str:
    known = {"rule": "rules", "service": "a judge service"}.get(str(view.get("source")), "")
    return known or f"{clean(view.get('model') or '?', 60)} ({clean(view.get('provider') or '?', 40)})"
