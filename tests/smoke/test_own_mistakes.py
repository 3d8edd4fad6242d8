"""Mistakes in an app that the smoke test serves itself: their author is shown where they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from rltui.smoke.causes import log_end
from rltui.smoke.stages import groups
from rltui.smoke.stages.base import Findings
from tests.smoke.conftest import smoke, stage

APP = """
import httpx
from trainer.taskapp.server import TaskAppConfig

async def rollout(request, _):
    call = {{"messages": [{{"role": "user", "content": "What is 2 + 3?"}}]}}
    async with httpx.AsyncClient(timeout=60) as http:
        await http.post(request.policy.config["inference_url"], json=call)
    {line}
    step = {{"reward": reward, "done": True, "info": {{}}}}
    return {{"trajectories": [{{"steps": [step]}}], "metrics": {{"outcome_reward": reward}}}}

def build_config():
    size = {{"sizes": {{"train": 9}}}}
    infos = lambda seeds: [{{"task_metadata": {{"prompt": str(s)}}}} for s in seeds]
    return TaskAppConfig("sums", "Sums", "", {{"task": {{"id": "sums"}}}}, lambda: size, infos, rollout)
"""
PLAYED = {"S01", "S02", "S07", "S08"}


def app(folder: Path, line: str) -> Path:
    path = folder / "mine.py"
    path.write_text(APP.format(line=line))
    return path


async def test_the_end_of_its_traceback_stands_under_the_stage(tmp_path: Path) -> None:
    report, _ = await smoke(app(tmp_path, "raise RuntimeError('my bug')"), only=PLAYED)
    found = stage(report, "S07")
    assert found.verdict == "fail" and "log" in found.fix
    assert found.notes[-1] == "its log: RuntimeError: my bug"
    assert any('mine.py", line 9, in rollout' in note for note in found.notes)


@pytest.mark.parametrize("value", ["float('nan')", "'0.5'"])
async def test_a_reward_that_is_no_number_is_named_with_its_path(tmp_path: Path, value: str) -> None:
    report, _ = await smoke(app(tmp_path, f"reward = {value}"), only=PLAYED)
    found = stage(report, "S07")
    assert "steps[0].reward" in found.message and "what the rollout handler returns" in found.fix


async def test_rewards_of_zero_under_senseless_answers_are_a_note(tmp_path: Path) -> None:
    report, _ = await smoke(app(tmp_path, "reward = 0.0"), only={*PLAYED, "S09"})
    found = stage(report, "S09")
    assert found.verdict == "ok"
    assert "all rewards are 0: mock answers cannot earn here; play with --policy self" in found.notes


@pytest.mark.parametrize(
    ("seconds", "computed", "verdict", "says"),
    [
        (6.0, 5.8, "ok", "bound by the CPU"),  # six seconds of computing take their turn anywhere
        (6.0, 0.1, "warn", "one episode after the other"),
        (1.2, 0.1, "ok", ""),
        (0.9, 0.1, "ok", ""),  # too short to say
    ],
)
def test_computing_is_not_taken_for_waiting(
    seconds: float, computed: float, verdict: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "SERIAL_FROM_S", 1.0)
    findings = Findings()
    groups.check_serial(6, seconds, computed, findings, one=1.0, one_computed=computed / 6)
    found = findings.found("")
    assert found.verdict == verdict and says in " ".join((found.message, *found.notes))


def test_the_marks_under_a_traceback_are_left_out() -> None:
    assert log_end(["Traceback", "  f(x)", "    ~^^^", "", "ValueError: x"]) == ("Traceback", "  f(x)", "ValueError: x")
