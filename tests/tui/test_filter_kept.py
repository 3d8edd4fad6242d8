"""Escape in the line of a filter leaves the filter that was in use; escape in the list lets it go."""

import pytest

from tests.tui.app_driver import build, run_in, screen_text, until


async def test_escape_in_the_line_keeps_the_filter_of_the_runs(folder):
    for number, name in enumerate(("alpha", "beta", "gamma"), 1):
        run_in(folder, name, number=number)
    app = build(folder)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(app, "3 runs")
        await pilot.press("/", *"bet", "enter")
        await until(app, "showing 1 of 3")
        await pilot.press("/", "ctrl+u", *"gam")
        await until(app, "gamma-rl", lambda: "beta-rl" not in screen_text(app))
        await pilot.press("escape")
        await until(app, "beta-rl", lambda: "gamma-rl" not in screen_text(app))
        await pilot.press("escape")
        await until(app, "alpha-rl", "beta-rl", "gamma-rl")


@pytest.mark.parametrize(("tab", "used", "shows"), [("R", "reward > 0.5", " of 80"), ("M", "kl", "kl")])
async def test_escape_in_the_line_keeps_the_filter_of_a_tab(folder, tab, used, shows):
    app = build(folder, run_dir=run_in(folder, "alpha"))
    async with app.run_test(size=(120, 30)) as pilot:
        await until(app, "step 4/4")
        await pilot.press(tab)
        await until(app, "Episode 79" if tab == "R" else "reward/mean")
        await pilot.press("/", *used, "enter")
        await until(app, shows)
        await pilot.press("/", "ctrl+u", *"nothing")
        await pilot.press("escape", "/")
        await until(app, f"/ {used}")
