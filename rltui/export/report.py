"""One page about a run, in one file: it needs no network, runs no script, and can be printed."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path, PurePath
from typing import Any

from rltui.charts.numbers import number
from rltui.charts.parts import Mark, Series
from rltui.charts.smooth import Ema, default_weight, titled
from rltui.doctor.checkup import Checkup
from rltui.doctor.doctor import speaking
from rltui.doctor.report import WORDS
from rltui.export import svg
from rltui.export.report_episodes import episodes
from rltui.export.style import CSS
from rltui.model.event_view import row, told
from rltui.model.marks import marks
from rltui.model.metric_view import group_of, ordered
from rltui.model.overview_view import Shown, charts
from rltui.model.progress import epoch
from rltui.model.ran_with import LIVE, ran_with
from rltui.model.run import RunModel
from rltui.sources.base import Json, RunSource, Unreadable
from rltui.text import clean
from rltui.words import duration

LAST_EVENTS = 300
NAMED = (("model", "policy", "model_name"), ("method", "algorithm", "variety"), ("trained", "policy", "trainer_mode"))
STATES = {"succeeded": "good", "failed": "act", "cancelled": "watch", "paused": "watch"}
_CSP = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_SIGNS = {"error": "act", "warning": "watch"}


def write_report(out: Path, source: RunSource) -> None:
    """Read the run and write its page. Unreadable: the run cannot be read."""
    model = RunModel(source)
    while model.refresh(1.0).more:
        pass
    if model.error is not None:
        raise Unreadable(model.error)
    checkup = Checkup()
    checkup.look(model)
    out.write_text(page(model, checkup), encoding="utf-8", errors="replace")


def page(model: RunModel, checkup: Checkup) -> str:
    """The whole document."""
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_CSP}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{_text(model.name, 120)}</title><style>{CSS}</style></head><body>",
        *_head(model),
        *_findings(checkup),
        "<h2>Course</h2>",
        *_course(model),
        *_evaluations(model),
        *episodes(model),
        *_checkpoints(model),
        *_config(model),
        *_events(model),
        *_all_metrics(model),
        f'<p class="dim">Written by rltui, {time.strftime("%Y-%m-%d %H:%M %Z")}.</p></body></html>',
    ]
    return "\n".join(parts) + "\n"


def _head(model: RunModel) -> list[str]:
    status = model.status or {}
    state = str(status.get("state") or "starting")
    begun, ended = epoch(status.get("started_at") or status.get("created_at")), epoch(status.get("finished_at"))
    when = " to ".join(time.strftime("%Y-%m-%d %H:%M", time.localtime(at)) for at in (begun, ended) if at is not None)
    lines = [f"<h1>{_text(model.name, 200)}</h1>"]
    lines.append(f'<p><b class="{STATES.get(state, "")}">{_text(state, 20)}</b> <span class="dim">{when}</span></p>')
    error = status.get("error") or {}
    lines += [f'<p class="act">{_text(error[name], 600)}</p>' for name in ("message", "hint") if error.get(name)]
    return [*lines, '<dl class="facts">', *(f"<div><dt>{k}</dt><dd>{v}</dd></div>" for k, v in _facts(model)), "</dl>"]


def _facts(model: RunModel) -> list[tuple[str, str]]:
    status, metrics = model.status or {}, model.metrics
    totals, counted = status.get("totals") or {}, status.get("episodes") or {}
    values = _values(model)
    named = (
        ("model", "policy", "model_name"),
        ("method", "algorithm", "variety"),
        ("trained", "policy", "trainer_mode"),
    )
    facts = [(word, _text(found, 80)) for word, *key in named if (found := _value(values, *key))]
    facts += [
        ("steps", f"{status.get('step') or 0} of {totals.get('steps') or '-'}"),
        ("time", duration(status.get("elapsed_s"))),
        ("episodes", f"{counted.get('accepted') or 0:,}, {counted.get('excluded') or 0:,} excluded"),
    ]
    for name, title in (("reward/mean", "reward, first to last"), ("eval/reward_mean", "evaluation, first to last")):
        series = metrics.get(name)
        ends = (series.points(0, 1)[1], series.last()) if series is not None and len(series) else None
        if ends is not None and ends[1] is not None:
            facts.append((title, f"{number(ends[0][0])} → {number(ends[1][1])}"))
    best = status.get("best") or {}
    if best.get("reward") is not None:
        facts.append(("best checkpoint", f"{number(best['reward'])} at step {best.get('step')}"))
    return facts


def _findings(checkup: Checkup) -> list[str]:
    found = speaking(checkup.findings)
    if not found:
        return ["<h2>Health</h2>", '<p class="good">No rule of the doctor has anything to say.</p>']
    rows = [
        (
            f'<span class="{"act" if WORDS[one.state] in ("act", "broken") else "watch"}">{WORDS[one.state]}</span>',
            _text(one.rule.id, 10),
            _text(one.line, 300),
            _text(one.rule.cause, 300),
            " ".join(f"<code>{_text(key, 80)}</code>" for key in one.keys),
        )
        for one in found
    ]
    return ["<h2>Health</h2>", _table(("", "rule", "measured", "cause", "change"), rows)]


def _course(model: RunModel) -> list[str]:
    found = marks(model.events)
    figures = [_figure(titled(shown.title, shown.plan.ema), shown.series, found) for shown in _shown(model)]
    return ['<div class="grid">', *figures, "</div>"]


def _shown(model: RunModel) -> list[Shown]:
    """Those of the first tab, and the evaluations if they are not among them."""
    found = [shown for shown in charts(model.metrics) if shown.series]
    return [shown for shown in found if shown.names != ("eval/reward_mean",)]


def _evaluations(model: RunModel) -> list[str]:
    means, stds = (model.metrics.get(f"eval/reward_{name}") for name in ("mean", "std"))
    if means is None or not len(means):
        return []
    series = [Series("evaluation", means, 0)]
    xs, ys = means.points(0, len(means))
    rows = []
    for x, y in zip(xs, ys, strict=True):
        spread = stds.at(x) if stds is not None else None
        rows.append((f"{x:.0f}", number(y), number(spread[1]) if spread and spread[0] == x else "-"))
    table = _table(("step", "mean reward", "std"), rows, numbers=True)
    if len(rows) > 12:
        table = f"<details><summary>{len(rows)} evaluations</summary>{table}</details>"
    figure = _figure("evaluation reward", series, marks(model.events))
    return ["<h2>Evaluation</h2>", '<div class="grid">', figure, f"<div>{table}</div>", "</div>"]


def _checkpoints(model: RunModel) -> list[str]:
    rows = [
        (
            str(one.get("step")),
            number(one["reward"]) if one.get("reward") is not None else "-",
            "best" if one.get("is_best") else "",
            f"<code>{_text(PurePath(str(one.get('path'))).name, 120)}</code>",
        )
        for one in model.checkpoints
    ]
    return ["<h2>Checkpoints</h2>", _table(("step", "reward", "", "folder"), rows)] if rows else []


def _config(model: RunModel) -> list[str]:
    """Every value that is not a default, as it ran."""
    rows = [
        (f"<code>{_text(key, 120)}</code>", f"<code>{_text(leaf['value'], 400)}</code>", _from(leaf))
        for key, leaf in _leaves(_values(model))
        if leaf.get("origin") not in ("default", "derived")
    ]
    if not rows:
        return []
    return ["<h2>Config</h2>", _table(("key", "value", "from"), rows)]


def _events(model: RunModel) -> list[str]:
    found = [row(event) for event in told(model.events)][-LAST_EVENTS:]
    rows = []
    for event in found:
        at = event["time"]
        clock = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at)) if at is not None else ""
        style = _SIGNS.get(event["level"], "")
        rows.append((clock, str(event["step"] or 0), f'<span class="{style}">{_text(event["message"], 600)}</span>'))
    if not rows:
        return []
    table = _table(("time", "step", "event"), rows)
    return ["<h2>Events</h2>", f"<details><summary>the last {len(rows)}</summary>{table}</details>"]


def _all_metrics(model: RunModel) -> list[str]:
    parts = ["<h2>All metrics</h2>"]
    groups: dict[str, list[str]] = {}
    for name in ordered(model.metrics.names()):
        groups.setdefault(group_of(name), []).append(name)
    for group, names in groups.items():
        figures = [
            _figure(titled(name, default_weight(name)), [_smoothed(model, name)], (), small=True) for name in names
        ]
        summary = f'<summary>{_text(group, 80)} <span class="dim">{len(names)}</span></summary>'
        parts.append(f'<details>{summary}<div class="grid small">{"".join(figures)}</div></details>')
    return parts


def _smoothed(model: RunModel, name: str) -> Series:
    pyramid, weight = model.metrics.series[name], default_weight(name)
    if not weight:
        return Series(name, pyramid, 0)
    ema = Ema(pyramid, weight)
    while ema.update():
        pass
    return Series(name, pyramid, 0, ema.pyramid)


def _figure(title: str, series: Sequence[Series], found: Sequence[Mark], *, small: bool = False) -> str:
    last = series[0].front.last() if series else None
    value = number(last[1]) if last is not None else ""
    if len(series) > 1:
        keys = (f'<span class="key k{i % 4}"></span>{_text(one.name, 40)} ' for i, one in enumerate(series))
        value = f'<span class="dim">{"".join(keys)}</span>'
    drawn = svg.chart(series, found, **({"width": 340, "height": 130} if small else {}))
    return f"<figure><figcaption><h3>{_text(title, 120)}</h3><span>{value}</span></figcaption>{drawn}</figure>"


def _table(heads: Iterable[str], rows: Iterable[Sequence[str]], *, numbers: bool = False) -> str:
    """Cells are HTML already."""
    kind = ' class="n"' if numbers else ""
    head = "".join(f"<th{kind}>{name}</th>" for name in heads)
    body = "".join(f"<tr>{''.join(f'<td{kind}>{cell}</td>' for cell in cells)}</tr>" for cells in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def _values(model: RunModel) -> Json:
    try:
        values = (model.source.document("resolved.json") or {}).get("values")
    except Unreadable:
        return {}
    return ran_with(values, model.events, (model.status or {}).get("attempt"))


def _from(leaf: Json) -> str:
    """The origin of a value; of a live change also since when."""
    return _text(leaf.get("at") if leaf.get("origin") == LIVE else leaf.get("origin"), 60)


def _value(values: Json, section: str, key: str) -> Any:
    leaf = (values.get(section) or {}).get(key) if isinstance(values.get(section), dict) else None
    return leaf.get("value") if isinstance(leaf, dict) else leaf


def _leaves(values: Json, path: str = "") -> Iterable[tuple[str, Json]]:
    for name, item in values.items():
        here = f"{path}.{name}" if path else str(name)
        if isinstance(item, dict) and "value" in item and "origin" in item:
            yield here, item
        elif isinstance(item, dict):
            yield from _leaves(item, here)


def _text(value: Any, limit: int) -> str:
    return escape(clean(value, limit))
