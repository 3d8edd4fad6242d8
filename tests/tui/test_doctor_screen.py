"""Screen 7 and the Health box: what they show, and where their keys lead."""

from __future__ import annotations

import json

import pytest

from rltui.doctor.mutes import muted
from rltui.doctor.rule import State
from rltui.doctor.rules import RULES
from rltui.samples import samples
from rltui.screens.config.screen import ConfigScreen
from rltui.screens.doctor.detail import FindingDetail
from rltui.screens.doctor.screen import DoctorScreen, RuleList
from rltui.screens.monitor.metrics import Metrics
from rltui.screens.monitor.screen import MonitorScreen
from tests.tui.app_driver import build, run_in, screen_text, until

DEAD = {"episodes": 1312, "learner_blocks": False}  # 41 iterations, whose last 20 are all alike


def detail(app) -> str:
    return str(app.screen.query_one("#detail").border_title)


async def test_seven_opens_the_doctor_with_the_worst_first(folder):
    app = build(folder, run_dir=run_in(folder, "alpha", "collapsed", **DEAD))
    async with app.run_test(size=(120, 40)) as pilot:
        await until(app, "rules speak")
        await pilot.press("7")
        text = await until(app, "D01 zero-variance groups", "no data", "training.group_size", "reward/frac_zero_std")
        first = text.splitlines()[2]
        assert "act" in first and "D01" in first and "100 %" in first and "< 30 %" in first
        await pilot.press("j")
        await until(app, lambda: "D01" not in detail(app))


async def test_without_a_run_it_says_how_to_get_one(folder):
    app = build(folder)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("7")
        await until(app, "No run is open.")
        await pilot.press("escape")
        await until(app, "No runs under")


async def test_the_run_of_last_time_is_opened_for_it(folder):
    run = run_in(folder, "alpha")
    app = build(folder, run_dir=run)
    async with app.run_test(size=(100, 30)):
        await until(app, "step 4/4")
        app.exit()
    app = build(folder)
    async with app.run_test(size=(100, 30)) as pilot:
        await until(app, "1 run")
        await pilot.press("7")
        await until(app, "D23 skipped steps")


async def test_enter_opens_the_key_in_a_config_that_begins_with_that_of_the_run(folder):
    run = run_in(folder, "alpha", "collapsed", **DEAD)
    (run / "config.toml").write_text(samples()["demo"].read_text())
    app = build(folder, run_dir=run)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("7")
        await until(app, "D01 zero-variance")
        await pilot.press("enter")
        await until(app, lambda: isinstance(app.screen, ConfigScreen) and app.screen.form is not None)
        config = app.screen
        await until(app, lambda: config.row is not None and config.row.key == "training.group_size")
        form = config.form
        assert form.path is None or not form.path.is_relative_to(run)
        await pilot.press("7", "enter")  # a second finding goes to the same config, with its edits
        await until(app, lambda: isinstance(app.screen, ConfigScreen))
        assert config.form is form
        await pilot.press("escape")
        await until(app, lambda: isinstance(app.screen, DoctorScreen))
        await pilot.press("2", "escape")  # who goes by keys is not led back
        await until(app, lambda: isinstance(app.screen, ConfigScreen))


async def test_evidence_is_in_the_monitor(folder):
    app = build(folder, run_dir=run_in(folder, "alpha", "crashed", episodes=320))
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("7")
        await until(app, "D35 coordinator")
        await pilot.press("E")
        await until(app, lambda: isinstance(app.screen, MonitorScreen))
        await until(app, "[L Logs]")
        app.show_finding("D09")
        await until(app, lambda: isinstance(app.screen, DoctorScreen) and "D09" in detail(app))
        await pilot.press("E")
        await until(app, "[M Metrics]")
        wanted = next(one for one in app.opened.checkup.findings if one.rule.id == "D09").metric
        await until(app, lambda: app.screen.query_one(Metrics).place()["metric"] == wanted)


async def test_an_event_about_a_rule_leads_to_it(folder):
    run = run_in(folder, "alpha")
    with (run / "events.jsonl").open("a") as events:
        line = {"seq": 999, "attempt": 1, "step": 4, "type": "rl.health", "level": "warning", "message": "D15: so"}
        events.write(json.dumps({**line, "data": {"rule": "D15", "value": 0.5, "advice": "this"}}) + "\n")
    app = build(folder, run_dir=run)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(app, "▲ D15: so")
        app.screen.query_one("#events").focus()
        await pilot.press("G", "enter")
        await until(app, lambda: isinstance(app.screen, DoctorScreen) and "D15" in detail(app))


async def test_a_mute_wants_a_reason_is_kept_and_can_be_taken_back(folder):
    run = run_in(folder, "alpha", "collapsed", **DEAD)
    app = build(folder, run_dir=run)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("7")
        await until(app, "D01 zero-variance")
        before = next(f for f in app.opened.checkup.findings if f.rule.id == "D01")
        assert before.speaks
        await pilot.press("M")
        await until(app, "Mute D01")
        await pilot.press("enter")
        await until(app, "a reason, please")
        await pilot.press(*"new", "enter")
        await until(app, lambda: muted(app.memory, app.opened.key) == {"D01": "new"})
        await until(app, "because new")
        row = next(line for line in screen_text(app).splitlines()[2:] if "D01 zero-variance" in line)
        assert "muted" in row and "100 %" in row
        assert app.memory._touched_runs == {}  # on disk by now
        await until(app, lambda: "D01" in detail(app))
        await pilot.press("M")
        await until(app, lambda: muted(app.memory, app.opened.key) == {})
        await until(app, lambda: next(f for f in app.opened.checkup.findings if f.rule.id == "D01").speaks)


async def test_under_readonly_nothing_is_muted(folder):
    app = build(folder, run_dir=run_in(folder, "alpha", "collapsed", **DEAD), readonly=True)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("7")
        await until(app, "D01 zero-variance")
        await pilot.press("M")
        await pilot.press("y")
        await until(app, "D01")
        text = screen_text(app)
        assert "Mute D01" not in text and " M mute" not in text and "E evidence" in text


async def test_a_failed_run_says_why_and_what_to_do(folder):
    run = run_in(folder, "alpha", "failed")
    error = json.loads((run / "status.json").read_text())["error"]
    app = build(folder, run_dir=run)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("7")
        await until(app, "rules speak")
        await until(app, error["message"][:40])


async def test_a_rule_that_fails_is_listed_as_broken(folder, monkeypatch):
    from dataclasses import replace

    from rltui.doctor import doctor

    def faulty(record, band):
        raise ZeroDivisionError("division by zero")

    rules = tuple(replace(rule, check=faulty) if rule.id == "D12" else rule for rule in RULES)
    monkeypatch.setattr(doctor.Doctor.__init__, "__defaults__", (None, rules, doctor.LOOK_BACK))
    app = build(folder, run_dir=run_in(folder, "alpha"))
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("7")
        await until(app, "1 broken")
        await until(app, "ZeroDivisionError")
        await until(app, lambda: any("D12" in line and "broken" in line for line in screen_text(app).splitlines()[2:]))
        assert app.opened.checkup.findings[0].state is State.BROKEN


async def test_health_names_who_speaks_and_enter_leads_there(folder):
    app = build(folder, run_dir=run_in(folder, "alpha", "collapsed", **DEAD))
    async with app.run_test(size=(120, 40)) as pilot:
        text = await until(app, "rules speak")
        await until(app, "act    D01 zero-variance groups 100 % (want < 30 %)")
        health = app.screen.query_one("#health")
        app.screen.set_focus(health)
        await pilot.press("j", "enter")
        await until(app, lambda: isinstance(app.screen, DoctorScreen))
        await until(app, lambda: "D01" not in detail(app))
        await pilot.press("escape")
        await until(app, lambda: isinstance(app.screen, MonitorScreen))
        assert text


@pytest.mark.parametrize("size", [(60, 18), (80, 24), (200, 60)])
async def test_it_fits(folder, size):
    app = build(folder, run_dir=run_in(folder, "alpha", "collapsed", episodes=320))
    async with app.run_test(size=size) as pilot:
        await pilot.press("7")
        await until(app, "rules speak")
        rules = app.screen.query_one(RuleList)
        await until(app, lambda: rules.size.height >= 4)
        assert app.screen.query_one(FindingDetail).size.height >= 4
        await pilot.press("G")
        await until(app, lambda: rules.is_visible_line(rules.cursor) and rules.cursor == len(RULES) - 1)


async def test_nothing_is_drawn_while_nothing_is_new(folder, monkeypatch):
    app = build(folder, run_dir=run_in(folder, "alpha", episodes=320))
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("7")
        await until(app, "D23 skipped steps")
        screen = app.screen
        drawn: list[object] = []
        monkeypatch.setattr(RuleList, "refresh", lambda self, *a, **k: drawn.append(self))
        monkeypatch.setattr(FindingDetail, "refresh", lambda self, *a, **k: drawn.append(self))
        for _ in range(3):
            screen._look()
        assert drawn == []
