"""What the first tab of a run shows, as data: the same for the screen, `rltui overview --json` and its text. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rltui.charts.parts import Series, trend
from rltui.charts.smooth import Ema
from rltui.model.event_view import row, told
from rltui.model.now import now_lines

if TYPE_CHECKING:
    from rltui.doctor.doctor import Finding
    from rltui.model.metrics import MetricStore
    from rltui.model.run import RunModel

LAST_EVENTS = 10


@dataclass(frozen=True)
class Plan:
    """One chart: the first set of metrics of which there are any, by (title, names with their words)."""

    id: str
    ema: float
    sets: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]


NORM = "optim/grad_norm"
PLANS = (
    Plan("reward", 0.6, (("reward", (("reward/mean", "mean"),)),)),
    # No loss: the surrogate is about 0 whatever is learned.
    Plan("eval", 0.0, (("eval reward", (("eval/reward_mean", "mean"),)), ("gradient norm", ((NORM, "norm"),)))),
    Plan(
        "policy",
        0.6,
        (("entropy", (("entropy", "entropy"),)), ("response tokens", (("length/mean", "mean"),))),
    ),
    Plan(
        "update",
        0.6,
        (
            (
                "clip fraction",
                (
                    ("gspo/clip_frac_high", "high"),
                    ("gspo/clip_frac_low", "low"),
                    ("gspo/clip_noise_floor", "noise"),
                ),
            ),
            ("gradient norm", ((NORM, "norm"),)),
        ),
    ),
)


@dataclass(frozen=True)
class Shown:
    """A chart as there are data for it; `names` are those of the metrics, one a series."""

    plan: Plan
    title: str
    names: tuple[str, ...]
    series: tuple[Series, ...]


def charts(metrics: MetricStore) -> list[Shown]:
    """The charts, each with its average in front; one without data has no series."""
    return [_shown(plan, metrics) for plan in PLANS]


def _shown(plan: Plan, metrics: MetricStore) -> Shown:
    for title, wanted in plan.sets:
        found = [(name, word) for name, word in wanted if metrics.get(name) is not None]
        if found:
            series = [
                Series(word, metrics.series[name], i, _smooth(metrics, name, plan.ema))
                for i, (name, word) in enumerate(found)
            ]
            return Shown(plan, title, tuple(name for name, _ in found), tuple(series))
    return Shown(plan, plan.sets[0][0], (), ())


def _smooth(metrics: MetricStore, name: str, weight: float) -> Any:
    if not weight:
        return None
    ema = Ema(metrics.series[name], weight)
    while ema.update():
        pass
    return ema.pyramid


def document(model: RunModel, findings: Sequence[Finding]) -> dict[str, Any]:
    """Charts, findings that speak, what it does now, and the last events. `smooth`: the number in a chart's title."""
    from rltui.doctor.doctor import counts, speaking

    last_events = told(model.events)[-LAST_EVENTS:]
    return {
        "charts": [_chart(shown) for shown in charts(model.metrics)],
        "health": {
            "rules": len(findings),
            "counts": {name.replace(" ", "_"): count for name, count in counts(findings).items()},
            "speaking": [
                {"id": finding.rule.id, "state": finding.state.value, "line": finding.line}
                for finding in speaking(findings)
            ],
        },
        "now": [{"name": name, "text": text} for name, text, _ in now_lines(model.status, model.metrics, model.groups)],
        "events": [row(event) for event in last_events],
    }


def _chart(shown: Shown) -> dict[str, Any]:
    return {
        "title": shown.title,
        "ema": shown.plan.ema,
        "series": [_series(name, one) for name, one in zip(shown.names, shown.series, strict=True)],
    }


def _series(name: str, one: Series) -> dict[str, Any]:
    raw, front = one.pyramid.last(), one.front.last()
    moved = trend(one.front)
    return {
        "metric": name,
        "step": raw[0] if raw else None,
        "value": raw[1] if raw else None,
        "smooth": front[1] if front else None,
        "change": moved[0] if moved else None,
        "change_steps": moved[1] if moved else None,
        "nonfinite": one.pyramid.gap_count,
    }
