"""S14 forecast."""

from __future__ import annotations

from dataclasses import replace

from rltui.model.now import duration_of
from rltui.smoke.bench import Bench
from rltui.smoke.forecast import forecast_of
from rltui.smoke.stages.base import Findings, Found


async def outlook(bench: Bench) -> Found:
    episodes, seconds = bench.burst
    plan = replace(bench.settings.plan, burst_episodes=episodes, burst_seconds=seconds)
    if bench.settings.plan.iterations is None:
        settings = bench.settings
        plan = replace(
            plan, concurrency=settings.concurrency, max_turns=settings.max_turns, max_tokens=settings.max_tokens
        )
    forecast = bench.forecast = forecast_of(bench.episodes, plan)
    found = Findings()
    for text in forecast.warnings:
        found.warn(text, "")
    minutes = forecast.minutes_per_iteration
    told = "" if minutes is None else f"an iteration's rollouts take about {duration_of(60 * minutes)}"
    return found.found(told or "no estimate of an iteration: give a CONFIG")
