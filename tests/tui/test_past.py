"""The past of a run: every read cut at a time, forward and back, and the screen that moves in it."""

from __future__ import annotations

from math import isfinite
from threading import Event

import pytest

from rltui.model.past import PastModel
from rltui.model.run import RunModel
from rltui.screens.monitor.logs import Logs
from rltui.sources.base import Slice
from rltui.sources.cut import Cut
from rltui.sources.local import LocalRunSource
from rltui.sources.past import PastSource, until
from rltui.sources.tape import Tape
from tests.tui.app_driver import build, run_in, screen_text
from tests.tui.app_driver import until as shown
from trainer.rundir.jsonl import from_iso


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return run_in(tmp_path_factory.mktemp("runs"), "alpha", "resumed", episodes=640)


def drained(model: RunModel) -> RunModel:
    while model.refresh(1.0).more:
        pass
    assert model.error is None
    return model


def at(run, place: int) -> tuple[PastSource, RunModel]:
    """A model that was never anywhere else."""
    source = PastSource(LocalRunSource(run))
    source.tape.extend()
    time = source.tape.times[place]
    return source, drained(PastModel(source, lambda: time))


def seen(model: RunModel) -> dict:
    series = {name: one.points(0, len(one)) for name, one in model.metrics.series.items() if len(one)}
    return {
        "status": model.status,
        "events": [event["seq"] for event in model.events],
        "groups": [group["group"] for group in model.groups],
        "episodes": [model.episodes.n_at(i) for i in range(len(model.episodes))],
        "series": {name: ([*xs], [*ys]) for name, (xs, ys) in series.items()},
        "latest": {name: value for name, value in model.metrics.latest.items() if isfinite(value)},
        "checkpoints": [one["step"] for one in model.checkpoints],
    }


def test_nothing_of_later_is_seen(run):
    source, model = at(run, 15)
    now = source.tape.times[15]
    assert model.status is not None and model.status["step"] == source.tape.steps[15]
    assert model.status["state"] == "running" and not model.live
    assert all(from_iso(event["created_at"]) <= now for event in model.events)
    assert all(group["t"] <= now for group in model.groups)
    rows = [model.episodes.row(i) for i in range(len(model.episodes))]
    assert rows and all(row["t"] <= now for row in rows)
    after = LocalRunSource(run).index(rows[-1]["n"] + 1, 640)
    assert after[0]["t"] > now
    assert model.metrics.step == source.tape.steps[15]


def test_moving_to_and_fro_shows_what_a_fresh_look_shows(run):
    """Whatever way a time was reached, it shows the same."""
    source = PastSource(LocalRunSource(run))
    source.tape.extend()
    where = [len(source.tape) - 1]
    model = PastModel(source, lambda: source.tape.times[where[0]])
    for place in (len(source.tape) - 1, 20, 21, 20, 3, 30, 29, 12, 0, 38):
        where[0] = place
        drained(model)
        assert seen(model) == seen(at(run, place)[1]), place


def test_the_end_is_the_record_as_it_stands(run):
    whole = drained(RunModel(LocalRunSource(run)))
    source = PastSource(LocalRunSource(run))
    assert seen(drained(PastModel(source, lambda: source.at))) == seen(whole)


def test_a_cut_takes_back_a_late_evaluation_of_an_early_step():
    rows = [{"time": float(t), "step": t} for t in range(1, 9)]
    rows.insert(7, {"time": 7.5, "step": 7, "eval_step": 3})
    cut = Cut(
        lambda cursor: Slice(rows if not cursor else [], 1),
        lambda r: r["time"],
        lambda r: r.get("eval_step", r["step"]),
    )
    part = cut.slice(None, 8.0)
    assert part.rows == rows
    part = cut.slice(part.cursor, 7.0)
    assert part.rewind == 2 and [row["step"] for row in part.rows] == [3, 4, 5, 6, 7]
    assert not any("eval_step" in row for row in part.rows)
    assert cut.slice(part.cursor, 7.5).rows == [rows[7]]


def test_lines_of_a_log_end_at_the_time():
    lines = ["2025-06-15T15:00:00.000Z INFO a: one", "  more of it", "2025-06-15T15:00:05Z INFO a: two", "tail"]
    assert until(lines, from_iso("2025-06-15T15:00:04Z")) == lines[:2]
    assert until(lines, from_iso("2025-06-15T15:00:05Z")) == lines
    assert until(lines, 0.0) == []


def test_the_past_takes_no_requests(run):
    source, _ = at(run, 3)
    assert source.verbs == frozenset()
    with pytest.raises(Exception, match="this is the past"):
        source.request("stop")


async def test_the_screen_moves_in_time_and_comes_back(run):
    app = build(run.parent, run_dir=run)
    async with app.run_test(size=(120, 40)) as pilot:
        await shown(app, "Training completed")
        await pilot.press("P")
        await shown(app, "THE PAST", "step 40 of 40", "step 40/40")
        await pilot.press("<")
        await shown(app, "step 36 of 40", "step 36/40")
        await pilot.press(",")
        await shown(app, "step 35/40")
        await pilot.press(".", ".")
        await shown(app, "step 37/40")
        await pilot.press("S")
        assert "Steer" not in screen_text(app)
        await pilot.press("L")
        await shown(app, "step 37 loss")
        assert "step 38 loss" not in screen_text(app)
        await pilot.press("<")
        await shown(app, lambda: "step 37 loss" not in screen_text(app) and "step 33 loss" in screen_text(app))
        await pilot.press("R")
        await shown(app, "Episodes")
        assert app.screen.query_one("#tab-rollouts").size
        await pilot.press("O")
        await pilot.press("F")
        await shown(app, "step 40 of 40")
        await shown(app, "Training completed")
        await shown(app, lambda: screen_text(app).splitlines()[-1].split()[:4] == [",/.", "step", "</>", "tenth"])
        for key in ("P", "escape"):
            await pilot.press(key)
            await shown(app, lambda: "THE PAST" not in screen_text(app) and "[4 Monitor]" in screen_text(app))
            await pilot.press("P")
            await shown(app, "THE PAST")


async def test_what_is_asked_for_while_it_is_read_is_done_then(run, monkeypatch):
    app = build(run.parent, run_dir=run)
    may, extend = Event(), Tape.extend
    monkeypatch.setattr(Tape, "extend", lambda tape: may.wait(30) and extend(tape))
    async with app.run_test(size=(100, 30)) as pilot:
        try:
            await shown(app, "step 40/40")
            await pilot.press("P")
            text = await shown(app, "THE PAST")
            assert "reading the run" in text and "no step" not in text and "Waiting" not in text
            await pilot.press("<", ",")
            assert "reading the run" in screen_text(app)
        finally:
            may.set()
        await shown(app, "step 35 of 40")
        await shown(app, "step 35/40")


@pytest.mark.parametrize("read_at_once", [True, False])
async def test_of_a_log_each_line_shows_once_however_fast_the_time_moves(run, monkeypatch, read_at_once):
    """The lines of a time that was left may still be on their way, or still be read."""
    app = build(run.parent, run_dir=run)
    async with app.run_test(size=(120, 40)) as pilot:
        await shown(app, "step 40/40")
        await pilot.press("P")
        await shown(app, "step 40 of 40")
        await pilot.press("L")
        await shown(app, "step 40 loss")
        tab, jobs = app.screen.query_one(Logs), []
        lines = len(tab.view.store)
        monkeypatch.setattr(tab._opened, "in_thread", jobs.append)
        tab.update(tab._opened.model, frozenset({"logs"}))
        if read_at_once:
            jobs.pop()()
        tab.update(tab._opened.model, frozenset({"logs"}))
        for job in jobs:
            job()
        await pilot.pause()
        await shown(app, lambda: len(tab.view.store) == lines)


async def test_before_the_first_step_it_says_so(run):
    app = build(run.parent, run_dir=run)
    async with app.run_test(size=(80, 24)) as pilot:
        await shown(app, "step 40/40")
        await pilot.press("P")
        await shown(app, "step 40 of 40")
        await pilot.press(*["<"] * 12)
        await shown(app, "Waiting for the first step")
        await shown(app, "step 0 of 40")
