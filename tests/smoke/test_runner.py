"""Whole smoke tests of real apps: every stage, what is told on the way, and how they are stopped."""

import asyncio
import textwrap
from pathlib import Path

import pytest

from rltui.smoke.events import Done, EpisodeEnded, GroupClosed, StageBegan, StageEnded, TurnSeen
from rltui.smoke.policies.base import Call, Policy, PolicyFailed, Reply
from rltui.smoke.policies.mock import MockPolicy
from rltui.smoke.policies.scripted import ScriptedPolicy
from rltui.smoke.report import to_json
from rltui.smoke.runner import Runner
from rltui.smoke.settings import Settings
from rltui.smoke.target import TargetRefused
from tests.smoke.conftest import PATIENT_S, SMALL, smoke, stage, verdicts
from trainer.taskapp.registry import BUILTIN

APP = "tests/smoke/tool_app.py"
IDS = [f"S{number:02}" for number in range(1, 15)]


async def test_an_app_of_tools_passes_every_stage() -> None:
    report, events = await smoke(APP, seeds=(0, 1, 2), group_size=4)
    assert [s.id for s in report.stages] == IDS
    failed = [(s.id, s.message) for s in report.stages if s.verdict == "fail"]
    assert failed == []
    assert verdicts(report)["S12"] == "skipped"
    assert {s.id for s in report.stages if s.verdict == "ok"} >= {"S01", "S02", "S03", "S05", "S06", "S07", "S08"}
    assert report.app["task"]["id"] == "press"
    assert len(report.episodes) == 12
    for episode in report.episodes:
        (turn,) = episode.turns
        assert episode.R == episode.outcome and turn.tool_calls[0]["function"]["name"] == "press"
        assert turn.messages_tail[0]["content"] == f"Seed {episode.seed}: press the right button."
    told = [event.id for event in events if isinstance(event, StageBegan)]
    assert told == IDS == [event.stage.id for event in events if isinstance(event, StageEnded)]
    closed = [event for event in events if isinstance(event, GroupClosed)]
    assert closed and all(abs(sum(e.A or 0 for e in event.episodes)) < 1e-6 for event in closed)
    ended = [event.episode for event in events if isinstance(event, EpisodeEnded)]
    assert sum(len(e.turns) for e in ended) == sum(isinstance(event, TurnSeen) for event in events)
    assert to_json(report)["schema"] == 1


@pytest.mark.parametrize("name", [*sorted(BUILTIN), "reasoning_gym:leg_counting", "verifiers:hot-cold-env"])
async def test_apps_that_need_no_code_are_ready(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if ":" in name:
        pytest.importorskip(name.partition(":")[0])
    environments = str(Path("tests/taskapp/environments").absolute())
    monkeypatch.syspath_prepend(environments)
    monkeypatch.setenv("PYTHONPATH", environments, prepend=":")
    report, _ = await smoke(name, ScriptedPolicy([Reply("7")]), evaluation_seeds=(160, 161))
    assert [(s.id, s.message) for s in report.stages if s.verdict == "fail"] == []
    assert report.verdict in ("ready", "ready_with_warnings")


async def test_a_failed_stage_stops_only_what_depends_on_it() -> None:
    class Broken(Policy):
        name = "broken"

        async def reply(self, call: Call) -> Reply:
            raise PolicyFailed(500, "x", "out of order")

    report, _ = await smoke(APP, Broken())
    found = verdicts(report)
    assert found["S07"] == "fail" and found["S05"] == "ok" and found["S06"] == "ok"
    assert {found[name] for name in ("S09", "S10", "S11", "S14")} == {"skipped"}
    assert stage(report, "S09").message == "needs S07"
    assert report.verdict == "not_ready" and "S07 one episode" in report.verdict_text


async def test_single_stages_run_again() -> None:
    settings = Settings(app=APP, **SMALL)
    async with Runner(settings, MockPolicy()) as runner:
        first = [e async for e in runner.run({"S01", "S02", "S05"})]
        again = [e async for e in runner.run({"S05"})]
    assert isinstance(first[-1], Done)
    assert [e.stage.id for e in again if isinstance(e, StageEnded)] == ["S05"]
    assert [s.id for s in again[-1].report.stages] == ["S01", "S02", "S05"]


async def test_pause_step_resume() -> None:
    settings = Settings(app="builtin:guess", **SMALL)
    async with Runner(settings, ScriptedPolicy([Reply("0")])) as runner:
        seen: list[TurnSeen] = []

        async def follow() -> None:
            async for event in runner.run({"S01", "S02", "S07"}):
                if isinstance(event, TurnSeen):
                    seen.append(event)
                    woken.set()

        woken = asyncio.Event()
        runner.control.pause()
        work = asyncio.create_task(follow())
        for number in (1, 2):
            woken.clear()
            runner.control.step()
            async with asyncio.timeout(PATIENT_S):  # the app is started, too
                await woken.wait()
            assert len(seen) == number and not work.done()
        runner.control.resume()
        async with asyncio.timeout(PATIENT_S):
            await work
        assert len(seen) == 4


async def test_a_stop_ends_with_a_report_of_what_is_done() -> None:
    settings = Settings(app="builtin:guess", **SMALL)
    async with Runner(settings, MockPolicy()) as runner:
        events = []
        async for event in runner.run():
            events.append(event)
            if isinstance(event, TurnSeen) and runner.bench.stage == "S09":
                runner.control.stop()
    report = events[-1].report
    assert report.interrupted and report.verdict == "not_ready"
    assert verdicts(report)["S09"] == "skipped" and "S10" not in verdicts(report)
    assert runner.bench.target.died is not None  # the served app has ended with it


async def test_an_app_that_dies_in_an_episode_is_named(tmp_path) -> None:
    app = tmp_path / "dies.py"
    app.write_text(
        textwrap.dedent("""
        import os
        from tests.smoke import tool_app
        def build_config():
            config = tool_app.build_config()
            object.__setattr__(config, "rollout", lambda request, http: os._exit(7))
            return config
        """)
    )
    report, _ = await smoke(app)
    assert "the app has ended with status 7" in stage(report, "S07").message
    assert report.verdict == "not_ready"


async def test_an_app_that_does_not_start_is_its_own_failure(tmp_path) -> None:
    (tmp_path / "bad.py").write_text("import nothing_of_that_name\n")
    report, _ = await smoke(tmp_path / "bad.py")
    assert stage(report, "S01").verdict == "fail"
    assert "nothing_of_that_name" in stage(report, "S01").message
    assert {s.verdict for s in report.stages[1:]} == {"skipped"}


@pytest.mark.parametrize(("app", "words"), [("builtin:nope", "Known: facts"), ("nothing.py", "there is no file")])
def test_what_is_not_there_to_be_tested_is_refused(app: str, words: str) -> None:
    with pytest.raises(TargetRefused, match=words):
        Runner(Settings(app=app), MockPolicy())


async def test_an_address_where_nothing_listens() -> None:
    report, _ = await smoke("http://127.0.0.1:9")
    assert stage(report, "S01").message == "nothing answers at 127.0.0.1 port 9: connection refused"
    assert report.verdict == "not_ready"


async def test_hostile_text_and_nesting_harm_nothing(tmp_path) -> None:
    (tmp_path / "odd.py").write_text(
        textwrap.dedent("""
        import json
        import httpx
        from tests.smoke import tool_app
        deep = "x"
        for _ in range(300):
            deep = [deep]
        async def rollout(request, http):
            messages = [{"role": "user", "content": "\\ud800 \\x1b]52;c;AAAA\\x07", "extra": deep}]
            async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
                url = request.policy.config["inference_url"]
                answer = await client.post(url, content=json.dumps({"messages": messages}), timeout=60)
            answer.raise_for_status()
            step = {"reward": 1.0, "done": True, "info": {}, "obs": "\\ud800"}
            return {"trajectories": [{"steps": [step]}], "metrics": {"outcome_reward": 1.0}}
        def build_config():
            config = tool_app.build_config()
            object.__setattr__(config, "rollout", rollout)
            return config
        """)
    )
    reply = ScriptedPolicy([Reply("\ud83d \x1b[2J")])
    report, _ = await smoke(tmp_path / "odd.py", reply, trace_db=str(tmp_path / "t.db"))
    assert [(s.id, s.message) for s in report.stages if s.verdict == "fail"] == []
    (turn,) = report.episodes[0].turns
    assert turn.reply == "\ud83d \x1b[2J"  # as it came: whoever shows it cleans it
