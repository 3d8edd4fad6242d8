"""Episodes: a list that is empty says why, and the pane beside it never shows what is not under the cursor."""

from __future__ import annotations

import json
import re
import threading

import pytest

from rltui.model.episode_view import EpisodeView
from rltui.model.run import RunModel
from rltui.screens.monitor.episodes import Episodes
from rltui.screens.monitor.tab import OpenTab
from rltui.screens.monitor.xray_bar import XrayBar
from rltui.sources.local import LocalRunSource
from rltui.widgets.virtual_list import VirtualList
from tests.tui.app_driver import build, run_in, screen_text, until


async def test_a_filter_that_cannot_be_searched_for_is_said(folder):
    """What such an expression holds up is the whole interface."""
    app = build(folder, run_dir=run_in(folder, "alpha"))
    async with app.run_test(size=(160, 30)) as pilot:
        await until(app, "step 4/4")
        await pilot.press("R")
        await until(app, "Episode 79")
        await pilot.press("/", *"text = /(A|AA)+b/")
        await until(app, "column 9")


async def test_a_filter_that_matches_nothing_says_so_and_the_episode_comes_back(folder):
    app = build(folder, run_dir=run_in(folder, "alpha"))
    async with app.run_test(size=(120, 30)) as pilot:
        await until(app, "step 4/4")
        await pilot.press("R")
        await until(app, "Episode 79")
        await pilot.press("/", *"rew", "enter")
        await until(app, "No episode matches rew")
        await until(app, "No episode is under the cursor")
        text = screen_text(app)
        assert "/ changes the filter, esc clears it" in text
        assert "Question" not in text and "Episode 79" not in text
        await pilot.press("escape")
        await until(app, "Episode 79")
        await until(app, "Question")
        await until(app, lambda: "under the cursor" not in screen_text(app))


async def test_while_a_filter_looks_for_episodes_the_last_one_stays(folder, monkeypatch):
    """And is still there, with its number, when it is found again."""
    go_on = threading.Event()
    scan = EpisodeView.scan

    def slow(view):
        go_on.wait()
        yield from scan(view)

    app = build(folder, run_dir=run_in(folder, "alpha"))
    try:
        async with app.run_test(size=(120, 30)) as pilot:
            await until(app, "step 4/4")
            await pilot.press("R")
            await until(app, "Question")
            monkeypatch.setattr(EpisodeView, "scan", slow)
            await pilot.press("/", *"step > 0", "enter")
            await until(app, "Looking through the episodes")
            assert "Episode 79" in screen_text(app) and "Question" in screen_text(app)
            go_on.set()
            await until(app, "72 of 80")
            assert "Episode 79" in screen_text(app) and "Question" in screen_text(app)
    finally:
        go_on.set()


def test_an_ended_search_reads_on_what_became_of_the_episodes(folder, monkeypatch):
    monkeypatch.setattr("rltui.model.episode_view.SLICE_ROWS", 10)
    run = run_in(folder, "alpha", episodes=80)
    file = run / "rollouts" / "updates.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:20]))
    model = RunModel(LocalRunSource(run))
    while model.refresh(1.0).more:
        pass
    found = Episodes(model)
    found.choose("step > 0", "newest")
    monkeypatch.setattr("rltui.screens.monitor.episodes.SLICE_S", -1.0)
    found.scan()
    found.ended = True
    monkeypatch.setattr("rltui.screens.monitor.episodes.SLICE_S", 0.1)
    file.write_bytes(b"".join(lines))
    looked = found.view.scanned
    while found.scan():
        pass
    told = sum("adv" in found.row(n) for n in range(len(found.rows)))
    assert told == len({line["n"] for line in map(json.loads, lines) if line.get("adv") is not None}) > 20
    assert found.view.scanned == looked < len(found.rows)


async def test_a_search_is_ended_by_a_key_and_goes_on(folder, monkeypatch):
    """Of a place that is slow: the first 10 episodes that it looks at are there, the others are waited for."""
    monkeypatch.setattr("rltui.model.episode_view.SLICE_ROWS", 10)
    monkeypatch.setattr("rltui.screens.monitor.episodes.SLICE_S", -1.0)
    app = build(folder, run_dir=run_in(folder, "alpha"))
    async with app.run_test(size=(120, 30)) as pilot:
        await until(app, "step 4/4")
        await pilot.press("R")
        await until(app, "Episode 79", "80 episodes")
        looks, scan = threading.Semaphore(0), Episodes.scan

        def slow(rows):
            if rows.view is not None and not rows.ended and not looks.acquire(timeout=0.05):
                return True  # asked again, with whatever else there is to do between
            return scan(rows)

        monkeypatch.setattr(Episodes, "scan", slow)
        await pilot.press("/", *"step > 0", "enter")
        await until(app, "scanned 0 of 80")
        looks.release()
        await until(app, "scanned 10 of 80", "C end/go on")
        await pilot.press("C")
        await until(app, "ended at 10 of 80")
        looks.release(100)
        await pilot.press("G")
        await until(app, "ended at 10 of 80")
        await pilot.press("C")
        await until(app, "72 of 80", lambda: "C end/go on" not in screen_text(app))


async def test_a_jump_to_an_iteration_without_episodes_goes_to_the_nearest_and_says_so(folder):
    app = build(folder, run_dir=run_in(folder, "alpha"))
    async with app.run_test(size=(120, 30)) as pilot:
        await until(app, "step 4/4")
        await pilot.press("R")
        await until(app, "Episode 79")
        app.frame.post_message(OpenTab("rollouts", iteration=40, split="train"))
        await until(app, "no train episode of iteration 40 was recorded: this is the nearest, 2")
        await until(app, lambda: "iteration = 2 " in screen_text(app) and "32 of 80" in screen_text(app))
        await pilot.press("escape")
        await until(app, lambda: "iteration = 2" not in screen_text(app))


async def test_what_is_sorted_shows_its_first_rows_whatever_is_found_later(folder, monkeypatch):
    monkeypatch.setattr("rltui.model.episode_view.SLICE_ROWS", 4)
    app = build(folder, run_dir=run_in(folder, "alpha"))
    async with app.run_test(size=(120, 30)) as pilot:
        await until(app, "step 4/4")
        await pilot.press("R")
        await until(app, "Episode 79")
        await pilot.press("o", "down", "enter")
        text = await until(app, lambda: "reward, best first" in screen_text(app) and "scanned" not in screen_text(app))
        found = app.frame.query_one("#episodes", VirtualList)
        assert found.cursor == found.top == 0, text


async def test_a_run_without_episodes_says_so(folder):
    path = folder / "empty-rl_0000000000000007"
    path.mkdir()
    app = build(folder, run_dir=path)
    async with app.run_test(size=(120, 30)) as pilot:
        await until(app, "Waiting for the first step")
        await pilot.press("R")
        await until(app, "No episode yet")
        await until(app, "No episode is under the cursor")


async def test_a_group_shows_its_members_a_diff_of_two_and_the_way_back(folder):
    app = build(folder, run_dir=run_in(folder, "alpha"))
    async with app.run_test(size=(120, 40)) as pilot:
        await until(app, "step 4/4")
        await pilot.press("R", "/", *"split = train and iteration = 2", "enter")
        await until(app, "32 of 80")
        await pilot.press("v")
        await until(app, "Groups, iteration 2")
        await until(app, "#6  reward")  # the page with the member that the cursor was on
        await until(app, "> It is", "6-8 of 8")  # the last page has as many as the others
        await pilot.press("left", "left")
        await until(app, "4-6 of 8")
        await pilot.press("d")
        await until(app, "[-#5 (reward", "{+ Let me explain why.+}")
        await pilot.press("escape")
        await until(app, "turns locked")
        await pilot.press("{")
        await until(app, "Group 6 · seed 6")
        await pilot.press("escape")
        await until(app, "32 of 80")  # the filter is still there
        await pilot.press("t")
        await until(app, "seed = 7 and split = train")


async def test_tokens_are_read_out_and_what_is_missing_is_said(folder):
    run = run_in(folder, "alpha")
    app = build(folder, run_dir=run)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(app, "step 4/4")
        await pilot.press("R", "/", *"split = train", "enter")
        await until(app, "64 of 80")
        await until(app, "Episode 71")
        await pilot.press("enter", "c")
        await until(app, "behaviour log-probability  0 ")
        await until(app, "not trained: it was given")
        for _ in range(20):
            await pilot.press("right")
        await until(app, "learner -")
        recorded = LocalRunSource(run)
        ids = recorded.tokens(recorded.episode(71)["branches"][0]["arr"])["ids"]
        await until(app, f"id {int(ids[20])} ")
        await pilot.press("c")
        await until(app, "ratio learner/behaviour")
        await pilot.press("V")  # the record
        await until(app, lambda: "ratio learner/behaviour" not in screen_text(app))


@pytest.mark.parametrize("size", [(100, 30), (80, 24)])
async def test_the_read_out_goes_on_below_where_there_is_no_room(folder, size):
    app = build(folder, run_dir=run_in(folder, "alpha"))
    async with app.run_test(size=size) as pilot:
        await until(app, "step 4/4")
        await pilot.press("R", "/", *"split = train", "enter")
        await until(app, "64 of 80")
        await pilot.press("enter", "c")
        await until(app, "behaviour log-probability  0 ")
        await pilot.press(*["right"] * 20)
        numbers = (
            r"id \d+",
            r"behaviour -\d\.\d{4}",
            r"learner -\d\.\d{4}",
            r"ratio \d\.\d{4}",
            r"advantage \S\d\.\d{3}",
        )
        for wanted in (*numbers, r"(·|│) +v\d"):
            await until(app, lambda wanted=wanted: re.search(wanted, screen_text(app)))
        app.screen.query_one(XrayBar).band = (0.8, 1.2)
        await pilot.press("c")
        await until(app, "s is clipped outside 0.8 – 1.2 ")


async def test_what_the_list_says_is_what_the_verb_prints(folder, capsys):
    """Each number of each line, and the histogram."""
    from rltui.cli import main as entry
    from rltui.model.episode_list import bins

    path = run_in(folder, "alpha")
    assert entry.main(["rollouts", str(path), "--where", "s > 1", "--sort", "reward, best first", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    app = build(folder, run_dir=path)
    async with app.run_test(size=(200, 60)) as pilot:
        await until(app, "step 4/4")
        await pilot.press("R", "/", *"s > 1", "enter", "o", "j", "enter")
        await until(app, f"{printed['kept']} of 80")
        await until(app, f"{printed['episodes'][0]['reward']:.3f}")
        text = screen_text(app)
        lines = [line for line in text.splitlines() if f"{printed['episodes'][0]['s']:.4f}" in line]
        first = printed["episodes"][0]
        assert any(f"{first['advantage']:+.2f}" in line and f" {first['seed']} " in line for line in lines)
        bars = app.screen.query_one("#bins").rows

        def drawn() -> bool:
            return [{"low": b.low, "high": b.high, "count": b.count} for b in bars.bins] == printed["bins"]

        await until(app, drawn)
    assert sum(b.count for b in bins([0.0, 0.0, 1.0])) == 3
