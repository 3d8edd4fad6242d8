"""The Pipeline tab: the maths of who waits for whom, and that the tab shows what `rltui pipeline --json` says."""

import io
import json
from contextlib import redirect_stdout

import pytest

import rltui.cli.main as entry
from rltui.look import default_look
from rltui.model.lag_feed import LagFeed
from rltui.model.metrics import MetricStore
from rltui.model.now import now_lines
from rltui.model.pipeline_text import percent, queue_words, service_lines, split_rows, wait_detail, wait_numbers
from rltui.model.pipeline_view import percents, pipeline_view
from rltui.model.run import RunModel
from rltui.screens.monitor.pipeline_draw import flow_rows, lag_rows, machine_rows
from rltui.screens.monitor.pipeline_draw import split_rows as draw_split
from rltui.sources.local import LocalRunSource
from rltui.words import short
from tests.tui.app_driver import build, run_in, screen_text, until

QUIET = {f"time/wait_for_{what}": 0.0 for what in ("batch", "straggler", "eval", "policy", "judge")}


def view(status=None, now=100.0, lags=(), **seconds):
    """Of 30 steps of 10 s each, of which the last 20 spent `seconds` so."""
    metrics = MetricStore()
    base = {**QUIET, "time/step": 10.0, "time/weight_sync": 0.0, "time/forward_backward": 4.0}
    for step in range(1, 31):
        spent = {f"time/wait_for_{name}": value for name, value in seconds.items()} if step > 10 else {}
        metrics.add([{"step": step, **base, **spent}])
    return pipeline_view(status, metrics, lags, now)


@pytest.mark.parametrize(
    ("seconds", "word"),
    [
        ({"batch": 4.0}, "inference-bound"),
        ({"straggler": 3.0, "batch": 1.0}, "inference-bound"),
        ({"policy": 5.0}, "trainer-bound"),
        ({"batch": 4.0, "policy": 5.0}, "taking turns"),
        ({"batch": 4.0, "judge": 3.0}, "judge-bound"),  # the episodes are late because their judgements are
        ({"eval": 2.0}, "evaluation-bound"),
        ({"batch": 0.9, "policy": 0.5}, "balanced"),
    ],
)
def test_the_verdict_names_the_largest_wait_of_the_last_steps(seconds, word):
    found = view(**seconds)
    assert (found["bound"]["word"], found["steps"]) == (word, 20)
    largest = max(seconds.values()) if word != "judge-bound" else 3.0
    assert percent(largest / 10) in found["bound"]["text"]


@pytest.mark.parametrize(
    ("ready", "word", "queue"),
    [
        (20, "inference-bound", ["20 of 32", "ready"]),
        (32, "inference-bound", ["32 ready", "1 full batch of 32"]),
        (128, "trainer-bound", ["128 ready", "4 full batches of 32"]),
    ],
)
def test_batches_that_are_queued_wait_for_the_trainer(ready, word, queue):
    pipeline = {"ready": ready, "need": 32, "max": 32}
    found = view({"state": "running", "pipeline": pipeline}, batch=4.0)
    assert found["bound"]["word"] == word and queue_words(found) == queue
    assert (f"{queue[1]} wait for the trainer" in found["bound"]["text"]) == (word == "trainer-bound")
    (rollouts, *_) = now_lines({"state": "running", "pipeline": pipeline}, MetricStore(), ())
    assert f", {queue[0]}" in rollouts[1] and rollouts[1].endswith(queue[1] if ready >= 32 else "for the next batch")


def test_before_the_first_step_nothing_is_said_and_nothing_breaks():
    found = pipeline_view(None, MetricStore(), (), 0.0)
    assert found["bound"] is None and found["waits"] == [] and found["split"] == []
    for draw in (flow_rows, draw_split, lag_rows):
        assert draw(found, 100, default_look())
    assert machine_rows(found, {}, 100, default_look())


def test_the_time_of_a_step_adds_up_to_all_of_it():
    parts = view(batch=3.333, straggler=1.111)["split"]
    assert [part["name"] for part in parts] == ["batch", "straggler", "eval", "update", "sync", "rest"]
    assert sum(part["share"] for part in parts) == pytest.approx(1)
    assert sum(part["seconds"] for part in parts) == pytest.approx(10)
    whole = view(batch=8.0, straggler=4.0)["split"]  # clocks of two processes disagree: still no more than all of it
    assert sum(part["share"] for part in whole) == pytest.approx(1) and whole[-1]["share"] == pytest.approx(0)


@pytest.mark.parametrize("shares", [(1 / 3, 1 / 3, 1 / 3), (0.005, 0.005, 0.99), (1.0, 0.0), (0.125,) * 8])
def test_percents_add_up_to_100(shares):
    found = percents(shares)
    assert sum(found) == 100 and all(abs(n - 100 * share) < 1 for n, share in zip(found, shares, strict=True))


def test_who_waits_now_stands_first_with_since_when():
    waiting = {"for": "task_app", "on": "3 task app replies", "since": 40.0}
    first, second = view({"state": "running", "waiting": waiting}, batch=4.0)["waits"]
    assert (first["who"], first["now"], first["seconds"], wait_numbers(first)) == (
        "rollouts",
        True,
        60.0,
        "now 1 m 00 s",
    )
    assert (second["for"], second["now"], second["share"]) == ("batch", False, pytest.approx(0.4))
    assert "since" in wait_detail(first)[0] and "rollout.timeout_s" in "".join(wait_detail(first))
    ended = view({"state": "succeeded", "waiting": waiting}, batch=4.0)["waits"]
    assert [wait["for"] for wait in ended] == ["batch"]


async def test_the_tab_shows_the_numbers_of_the_verb(tmp_path):
    run = run_in(tmp_path, "anna", "running", episodes=256, judge=True)
    out = io.StringIO()
    with redirect_stdout(out):
        assert entry.main(["pipeline", str(run), "--json"]) == 0
    told = json.loads(out.getvalue())
    app = build(tmp_path, run_dir=run)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(app, "step 16/")
        await pilot.press("I")
        rollouts, queue, gpu = told["rollouts"], told["queue"], told["machine"]["gpus"][0]
        (engine,), gateway, judge = told["engines"], told["gateway"], told["judge"]
        text = await until(
            app,
            told["bound"]["word"],
            told["bound"]["text"],
            f"{rollouts['running']} of {rollouts['max']} running",
            f"{queue['ready']} of {queue['need']}",
            f"vllm serving v{engine['version']}, {short(rollouts['tokens_per_sec'])} tokens/s, {engine['url']}",
            f"{gateway['calls']} model calls in flight, {gateway['url']}",
            f"{judge['in_flight']} calls in flight, 0 queued",
            f"GPU {gpu['index']}  {gpu['role']}",
            f"{100 * gpu['util']:.0f} %",
            "is the limit",
            " 256  100 %",
        )
        for words, _, n, _ in split_rows(told):
            assert any(words in line and f"{n} %" in line for line in text.splitlines())
        assert told["lag"]["counts"] == [[0, 256]]
        await pilot.press("enter")
        await until(app, "shorter by compute.topology.gpus_for_vllm")
        await pilot.press("enter")
        await until(app, lambda: "shorter by" not in screen_text(app))


def test_engines_that_do_not_serve_stand_first_and_an_ended_run_has_none():
    engine = {"url": "http://127.0.0.1:1", "kind": "vllm", "version": 7, "state": "serving"}
    engines = [engine, engine, {**engine, "state": "restarting", "version": 6}]
    status = {"state": "running", "engines": engines, "pipeline": {"judge_in_flight": 2, "judge_oldest_s": 4.0}}
    (name, text, style), judge = service_lines(view(status))
    assert (name, style) == ("engine", "watch")
    assert text == "vllm restarting v6, 2 vllm serving v7, - tokens/s"
    assert judge[1] == "2 calls in flight, 0 queued, the oldest 4.0 s old"
    ended = view({**status, "state": "failed"})
    assert (ended["engines"], ended["gateway"], ended["judge"]) == ([], None, None) and not service_lines(ended)


async def test_a_low_terminal_has_each_pane_behind_tab(tmp_path):
    app = build(tmp_path, run_dir=run_in(tmp_path, "anna", "running"))
    async with app.run_test(size=(120, 30)) as pilot:
        await until(app, "step 4/")
        await pilot.press("I")
        await until(app, "╭─ Pipeline", "engine ", "forward and backward", lambda: "╭─ Lag of" not in screen_text(app))
        for title, *within in (
            ("Who waits for whom",),
            ("Time of a step", "a step"),
            ("Tokens per second",),
            ("Lag of episodes", "is the limit"),
            ("Machine", "GiB free"),
        ):
            await pilot.press("tab")
            await until(app, f"╭─ {title}", *within, lambda: screen_text(app).count("╭─") == 1)
        await pilot.resize_terminal(120, 40)
        await until(app, "╭─ Lag of", "╭─ Machine", "GiB free")
        await until(app, lambda: screen_text(app).count("forward and backward") == 1)


def test_lags_come_from_the_newest_lines_alone(tmp_path):
    run = run_in(tmp_path, "anna", episodes=64)
    model = RunModel(LocalRunSource(run))
    lags = model.feed(LagFeed)
    while model.refresh().more:
        pass
    assert lags.counts() == [(0, 64)] and model.feed(LagFeed) is lags
    assert not model.refresh()
