"""How the calls of a judge are told: who judges, what goes on now, what it took, and its last bad reply. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from time import localtime, strftime
from typing import TYPE_CHECKING, Any

from rltui.model.judge_text import dollars, judge_name, tries_failed
from rltui.model.judged import TENTHS
from rltui.model.pipeline_text import seconds
from rltui.text import clean, fit, width
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


def spread_rows(view: View, cells: int, look: Look) -> list[Row]:
    """A row a track: how many scores it has in each tenth from 0 to 1, and beyond."""
    tracks = view["tracks"]
    if not tracks:
        return [[(" No call gave scores by track", "dim")]]
    bins = max(len(track["bins"]) for track in tracks)
    wide = 2 if cells >= 34 + 2 * bins else 1
    name = max(5, cells - 28 - wide * bins)
    ends = f"0{'1':>{wide * TENTHS - 1}}"
    rows: list[Row] = [[(f" {'track':<{name}} {'of':<7} {'mean':>5}  {ends:<{wide * bins}} {'scores':>9}", "dim")]]
    top = len(look.bars) - 1
    for at, track in enumerate(tracks):
        counts = [bin["count"] for bin in track["bins"]]
        drawn = "".join(look.bars[max(bool(n), round(top * n / max(counts)))] * wide for n in counts)
        said = fit(clean(track["track"], 60), name)
        head = f" {said}{' ' * (name - width(said))} {track['of']:<7} {track['mean']:>5.2f}  "
        rows.append([(head, "text"), (f"{drawn:<{wide * bins}}", f"series {at}"), (f" {track['scores']:>9}", "text")])
    return rows


def _said(view: View) -> Iterator[tuple[str, str, str]]:
    now = view["now"]
    if now is not None:
        limit = f", limit {view['timeout_s']:g} s" if view["timeout_s"] is not None else ""
        if now["stuck"]:
            yield "now", f"STUCK: the oldest call is {seconds(now['oldest_s'])} old{limit}", "act"
        oldest = f", the oldest {seconds(now['oldest_s'])} old{limit}" if now["oldest_s"] is not None else ""
        yield "in flight", f"{now['in_flight']} calls, {now['queued']} queued{oldest}", "text"
    yield "judge", judge_name(view), "text"
    rubric = clean(view.get("rubric_id") or view.get("rubric_hash") or "not known", 80)
    yield "rubric", rubric, "text"
    yield "calls", f"{view['tries']}, {view['cached']} known already, {view['again']} tried again", "text"
    yield "time", f"p50 {seconds(view['latency_p50_s'])}, p95 {seconds(view['latency_p95_s'])}, of all calls", "text"
    failed = tries_failed(view["failed"])
    timeouts = f", {view['timeouts']} of them timeouts" if view["timeouts"] else ""
    yield "no scores", f"{failed}{timeouts}" if failed else "none", "watch" if failed else "text"
    price = dollars(view["cost_usd"], view["cost_estimated"])
    cost = f"{price} $" if view["cost_usd"] is not None else "at an unknown price"
    yield "cost", f"{cost}, {amount(view['tokens_in'])} + {amount(view['tokens_out'])} tokens", "text"
    bad = view["bad"]
    if bad is not None:
        clock = f"{strftime('%H:%M:%S', localtime(bad['t_start']))} " if type(bad["t_start"]) in (int, float) else ""
        reply = clean(bad["reply"], 600) if bad["reply"] else "no reply came"
        yield "last bad", f"{clock}{clean(bad['code'] or '?', 40).removeprefix('judge_')}: {reply}", "text"
    yield "try", "another rubric on these episodes: rltui rejudge RUN --rubric FILE", "dim"
