"""A smoke test in lines of text: stages and episodes as they end, then spread, forecast and verdict."""

from __future__ import annotations

from collections.abc import Iterator

from rltui.model.now import duration_of
from rltui.smoke.events import EpisodeEnded, Event, GroupClosed, StageEnded
from rltui.smoke.report import Episode, Forecast, Report, Spread, Stage, Turn
from rltui.text import clean
from trainer.taskapp.codes import WARNINGS

MARKS = {"ok": "ok  ", "warn": "WARN", "fail": "FAIL", "skipped": "--  "}
LISTED = ("S07", "S09")  # stages whose episodes are shown: the first of each seed, and each that is not as it should be
MOST_CALLS = 8
EVIDENCE_CHARS = 300


def lines_of(event: Event) -> Iterator[str]:
    if isinstance(event, StageEnded):
        yield from _stage(event.stage)
    elif isinstance(event, EpisodeEnded) and event.episode.stage in LISTED:
        episode = event.episode
        if not episode.member or episode.excluded is not None or episode.warnings:
            yield from _episode(episode)
    elif isinstance(event, GroupClosed):
        advantages = ", ".join(f"{e.A:+.2f}" for e in event.episodes if e.A is not None)
        yield f"        seed {event.episodes[0].seed}  advantages {advantages}"


def _stage(stage: Stage) -> Iterator[str]:
    took = f"{stage.seconds * 1000:.0f} ms" if stage.seconds < 1 else f"{stage.seconds:.2f} s"
    took = "" if stage.verdict == "skipped" else took
    yield f"{MARKS[stage.verdict]}  {stage.id}  {stage.title:36}{took:>9}  {clean(stage.message, 400)}".rstrip()
    if stage.fix:
        yield f"           fix: {clean(stage.fix, 400)}"
    for note in stage.notes:
        yield f"           {clean(note, 400)}"
    if stage.verdict == "fail":
        for exchange in stage.exchanges[-2:]:
            status = exchange.status or "no answer"
            yield f"           > {exchange.method} {clean(exchange.url, 120)} {clean(exchange.request, EVIDENCE_CHARS)}"
            yield f"           < {status} {clean(exchange.response, EVIDENCE_CHARS)}"


def _episode(episode: Episode) -> Iterator[str]:
    who = f"        seed {episode.seed}.{episode.member}  {episode.seconds:6.2f} s  "
    if episode.excluded is not None:
        yield f"{who}excluded ({episode.excluded}): {clean(episode.sentence, 300)}"
    else:
        steps = " ".join(f"{reward:g}" for reward in episode.step_rewards[:20]) or "none"
        yield f"{who}R {episode.R:.4g}  steps {steps}  calls {_calls(episode.turns)}"
    for kind in episode.warnings:
        yield f"          warning: {WARNINGS.get(kind, clean(kind))}"
    if episode.trace is not None:
        yield f"          trace: {clean(episode.trace)}"


def _calls(turns: tuple[Turn, ...]) -> str:
    texts = []
    for turn in turns[:MOST_CALLS]:
        functions = [call.get("function") or {} for call in turn.tool_calls]
        told = ", ".join(f"{f.get('name')}({f.get('arguments', '')})" for f in functions)
        texts.append(clean(told or repr(turn.reply), 60))
    more = f", … ({len(turns)})" if len(turns) > MOST_CALLS else ""
    return ", ".join(texts) + more


def summary(report: Report) -> Iterator[str]:
    """Spread, forecast, and the verdict as the last line."""
    if report.spread is not None:
        yield from _spread(report.spread)
    if report.forecast is not None:
        yield from _forecast(report.forecast)
    yield clean(report.verdict_text, 1000)


def _spread(spread: Spread) -> Iterator[str]:
    yield "rewards:"
    for seed in spread.seeds:
        rewards = " ".join(f"{reward:.3g}" for reward in seed.rewards[:16])
        yield f"  seed {seed.seed:<6} mean {seed.mean:<8.3g} {'all equal: ' if seed.dead else ''}{rewards}"
    if spread.mean is not None and spread.std is not None:
        yield f"  all: mean {spread.mean:.3g}, std {spread.std:.3g}, from {spread.low:.3g} to {spread.high:.3g}"
    for guess in spread.predicted:
        yield (
            f"  predicted groups without any difference at group_size {guess.group_size}: {guess.zero_variance:.0%} "
            f"({guess.seeds} seeds)"
        )
    if spread.unpredicted:
        yield f"  {clean(spread.unpredicted)}"


def _forecast(forecast: Forecast) -> Iterator[str]:
    yield "forecast:"
    numbers = {
        "GPU hours": (forecast.gpu_hours, ""),
        "turns": (forecast.turns_mean, ""),
        "tokens": (forecast.tokens_mean, ""),
    }
    times = {
        "an iteration": forecast.minutes_per_iteration and forecast.minutes_per_iteration * 60,
        "the run": forecast.hours and forecast.hours * 3600,
        "episode p50": forecast.episode_p50_s,
        "episode p95": forecast.episode_p95_s,
    }
    told = [f"{name} {duration_of(seconds)}" for name, seconds in times.items() if seconds is not None]
    told += [
        f"{name} {value:.3g}{f' {unit}' if unit else ''}"
        for name, (value, unit) in numbers.items()
        if value is not None
    ]
    yield f"  {', '.join(told) or 'nothing is known yet'}{f'; bound by the {forecast.bound}' if forecast.bound else ''}"
    for text in forecast.inputs:
        yield f"  {clean(text)}"
