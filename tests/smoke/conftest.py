"""Smoke tests run whole, against apps that are really served."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rltui.smoke.events import Done, Event
from rltui.smoke.policies.base import Policy
from rltui.smoke.policies.mock import MockPolicy
from rltui.smoke.report import Report, Stage
from rltui.smoke.runner import Runner
from rltui.smoke.settings import Settings
from rltui.smoke.stages import failures, groups, reach, single

PATIENT_S = 60.0
SMALL: dict[str, Any] = {"seeds": (0, 1), "group_size": 2, "concurrency": 4, "max_turns": 4, "timeout_s": PATIENT_S}


async def smoke(
    app: str | Path, policy: Policy | None = None, only: set[str] | None = None, **changes: Any
) -> tuple[Report, list[Event]]:
    """Report and events of a small smoke test of `app`."""
    settings = Settings(**{"app": str(app), **SMALL, **changes})
    async with Runner(settings, policy or MockPolicy()) as runner:
        events = [event async for event in runner.run(only)]
    assert isinstance(events[-1], Done)
    return events[-1].report, events


def stage(report: Report, name: str) -> Stage:
    return next(stage for stage in report.stages if stage.id == name)


def verdicts(report: Report) -> dict[str, str]:
    return {stage.id: stage.verdict for stage in report.stages}


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """No keys of the person who runs the tests."""
    names = ("ENVIRONMENT_API_KEY", "ENVIRONMENT_API_KEY_ALIASES", "OPENAI_API_KEY", "GROQ_API_KEY", "SMOKE_API_KEY")
    for name in names:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """An app is not called slow where the machine is busy."""
    monkeypatch.setattr(reach, "SLOW_S", PATIENT_S)
    monkeypatch.setattr(single, "SLOW_TURN_S", PATIENT_S)
    monkeypatch.setattr(groups, "SERIAL_FROM_S", PATIENT_S)
    monkeypatch.setattr(failures, "STILL_S", PATIENT_S)
