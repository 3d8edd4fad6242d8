"""The Judge tab: what it gathers of the calls, that it says what `rltui judge --json` says, and its jumps."""

import io
import json
from contextlib import redirect_stdout

import pytest

import rltui.cli.main as entry
from rltui.look import default_look
from rltui.model.judge_feed import JudgeFeed
from rltui.model.judge_view import judge_view
from rltui.model.judged import Calls
from rltui.model.run import RunModel
from rltui.screens.monitor.judge_draw import call_rows, spread_rows
from rltui.sources.local import LocalRunSource
from rltui.sources.past import PastSource
from rltui.widgets.scatter import Scatter
from rltui.words import amount
from tests.cli.test_judge import HOSTILE, record_run
from tests.tui.app_driver import build, run_in, screen_text, until
from trainer.rundir import synth_judge


def fed(run):
    model = RunModel(LocalRunSource(run))
    feed = model.feed(JudgeFeed)
    while model.refresh().more:
        pass
    return model, feed


def asked(run):
    out = io.StringIO()
    with redirect_stdout(out):
        assert entry.main(["judge", "--run", str(run), "--json"]) == 0
    return json.loads(out.getvalue())


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return run_in(tmp_path_factory.mktemp("runs"), "judged", "running", episodes=256, judge=True)


def test_the_numbers_are_those_of_the_verb(run):
    model, feed = fed(run)
    view, told = judge_view(feed, model.status), asked(run)
    same = set(view) & set(told) - {"blend"}
    assert {"tries", "failed", "latency_p50_s", "latency_p95_s", "cost_usd", "recent", "model", "tracks"} <= same
    assert {name: view[name] for name in same} == {name: told[name] for name in same}
    assert view["recent"]["episodes"] == told["judged"] and view["again"] == sum(told["failed"].values())
    assert view["timeouts"] == told["failed"]["judge_transient"] and view["timeout_s"] == synth_judge.TIMEOUT_S
    assert feed.p50.last()[1] <= feed.p95.last()[1] and len(feed.p50) == 8 + 1  # 8 iterations, and step 0


def test_in_the_past_it_knows_the_calls_of_then_however_one_got_there(run):
    source = PastSource(LocalRunSource(run))
    source.tape.extend()
    times = source.tape.times
    feed = JudgeFeed()
    for place in (len(times) - 1, len(times) // 2, len(times) // 3, len(times) - 2, 1):
        source.at = times[place]
        fresh = JudgeFeed()
        for one in (feed, fresh):
            while one.read(source)[1]:
                pass
        assert judge_view(feed, None) == judge_view(fresh, None), place


def test_a_call_beyond_its_limit_is_called_stuck_and_hostile_replies_are_data(tmp_path):
    model, feed = fed(record_run(tmp_path / "judged-rl_00000000000000aa"))
    now = {"judge_in_flight": 1, "judge_queued": 0, "judge_oldest_s": 61.0}
    view = judge_view(feed, {"pipeline": now})
    assert view["now"]["stuck"] and view["timeout_s"] is not None and view["bad"]["reply"] == HOSTILE
    text = "\n".join("".join(part for part, _ in row) for row in call_rows(view, 58, default_look()))
    assert "STUCK" in text and "so good" in text and "\x1b" not in text and "rltui rejudge" in text
    assert judge_view(feed, {**model.status, "pipeline": now})["now"] is None  # it has ended


def test_a_file_that_begins_anew_is_counted_once(run, tmp_path):
    model, feed = fed(record_run(tmp_path / "judged-rl_00000000000000aa"))
    tries, file = feed.calls.tries, tmp_path / "judged-rl_00000000000000aa" / "judge.jsonl"
    text = file.read_text()
    file.write_text(text[: text.index("\n") + 1])
    while model.refresh().more:
        pass
    assert (tries, feed.calls.tries, feed.bad) == (8, 1, None)


async def test_the_tab_and_a_jump_from_a_point_to_its_episodes(run):
    told = asked(run)
    app = build(run.parent, run_dir=run)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(app, "step 16/")
        await pilot.press("J")
        await until(app, "of the last iteration")
        await until(app, ", of all calls")
        await until(
            app,
            f"rank corr. {told['recent']['agreement']:+.2f}, newest {told['judged']}",
            "gpt-5-nano (openai)",
            f"{told['tries']}, 0 known already",
            *("fact", "style", "limit 30 s"),
        )
        scatter = app.screen.query_one(Scatter)
        app.screen.set_focus(scatter)
        await until(app, lambda: scatter.has_focus)
        await pilot.press("left", "up", "right", "down")
        await until(app, "episode")
        await pilot.press("enter")
        await until(app, lambda: "n = " in screen_text(app))


def test_scores_lie_in_tenths_and_what_a_sum_gives_beyond_1_stands_apart():
    calls = Calls()
    for score in (0.0, 0.1, 0.3, 0.7, 0.95, 1.0):
        calls.add({"status": "ok", "kind": "outcome", "tracks": {"fact": score}})
    calls.add({"status": "ok", "kind": "event", "tracks": {"fact": 1.4}})
    calls.add({"status": "failed", "kind": "event", "tracks": {"fact": 0.0}})
    outcome, turns = calls.totals()["tracks"]
    assert (outcome["of"], outcome["scores"], turns["of"], turns["scores"]) == ("outcome", 6, "turns", 1)
    assert [bin["count"] for bin in outcome["bins"]] == [1, 1, 0, 1, 0, 0, 0, 1, 0, 2]
    assert outcome["mean"] == pytest.approx(3.05 / 6) and turns["bins"][-1] == {"low": 1.0, "high": None, "count": 1}
    head, *rows = ("".join(part for part, _ in row) for row in spread_rows(calls.totals(), 58, default_look()))
    bars = default_look().bars
    assert len({len(row) for row in (head, *rows)}) == 1 and bars[-1] * 2 + " " in rows[0] and head.index("0") < 35
    for cells in range(44, 120):
        (wide,) = {len("".join(part for part, _ in row)) for row in spread_rows(calls.totals(), cells, default_look())}
        assert wide <= cells


async def test_every_number_of_the_tab_is_that_of_the_verb(run):
    told = asked(run)
    pipeline = json.loads((run / "status.json").read_text())["pipeline"]
    app = build(run.parent, run_dir=run)
    async with app.run_test(size=(200, 60)) as pilot:
        await until(app, "step 16/")
        await pilot.press("J")
        failed = ", ".join(f"{code.removeprefix('judge_')} x {n}" for code, n in told["failed"].items())
        text = await until(
            app,
            f"rank corr. {told['recent']['agreement']:+.2f}, newest {told['recent']['episodes']}",
            f"{pipeline['judge_in_flight']} calls, 0 queued",
            f"{told['model']} ({told['provider']})",
            told["rubric_id"],
            f"{told['tries']}, {told['cached']} known already, {sum(told['failed'].values())} tried again",
            f"p50 {told['latency_p50_s']:.1f} s, p95 {told['latency_p95_s']:.1f} s, of all calls",
            failed,
            f"{told['failed']['judge_transient']} of them timeouts",
            f"{told['cost_usd']:.4f} $, {amount(told['tokens_in'])} + {amount(told['tokens_out'])} tokens",
        )
        assert [track["track"] for track in told["tracks"]] == ["fact", "style"]
        for track in told["tracks"]:
            most = max(bin["count"] for bin in track["bins"])
            bars = default_look().bars
            drawn = "".join(bars[max(bool(n), round((len(bars) - 1) * n / most))] * 2 for n in counts(track))
            (row,) = [line for line in text.splitlines() if f" {track['mean']:.2f}  {drawn}" in line]
            assert track["track"] in row and row.rstrip(" │").endswith(f" {track['scores']}")
        for name in ("fact", "style"):
            _, ys = app.opened.model.metrics.series[f"judge/{name}"].points(0, 99)
            weights = [0.6 ** (len(ys) - 1 - i) for i in range(len(ys))]
            mean = sum(w * y for w, y in zip(weights, ys, strict=True)) / sum(weights)
            assert f"{name} {mean:.3f}".rstrip("0") in text


def counts(track):
    return [bin["count"] for bin in track["bins"]]


async def test_a_run_without_a_judge_says_what_asks_for_one(tmp_path):
    run = run_in(tmp_path, "plain")
    app = build(tmp_path, run_dir=run)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(app, "step 4/")
        await pilot.press("J")
        await until(app, "No episode of this run was judged")
        await until(app, "judge.enabled")
