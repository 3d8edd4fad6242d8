"""Episodes: a list that is empty says why, and the pane beside it never shows what is not under the cursor."""

from __future__ import annotations

import threading

from rltui.model.episode_view import EpisodeView
from tests.tui.app_driver import build, run_in, screen_text, until


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

    monkeypatch.setattr(EpisodeView, "scan", slow)
    app = build(folder, run_dir=run_in(folder, "alpha"))
    try:
        async with app.run_test(size=(120, 30)) as pilot:
            await until(app, "step 4/4")
            await pilot.press("R")
            await until(app, "Question")
            await pilot.press("/", *"step > 0", "enter")
            await until(app, "Looking through the episodes")
            assert "Episode 79" in screen_text(app) and "Question" in screen_text(app)
            go_on.set()
            await until(app, "72 of 80")
            assert "Episode 79" in screen_text(app) and "Question" in screen_text(app)
    finally:
        go_on.set()


async def test_a_run_without_episodes_says_so(folder):
    path = folder / "empty-rl_0000000000000007"
    path.mkdir()
    app = build(folder, run_dir=path)
    async with app.run_test(size=(120, 30)) as pilot:
        await until(app, "Waiting for the first step")
        await pilot.press("R")
        await until(app, "No episode yet")
        await until(app, "No episode is under the cursor")
