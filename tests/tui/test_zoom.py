"""A zoomed pane has all of the screen between header and keys, whatever size it has among the others."""

import pytest

from tests.tui.app_driver import build, run_in, screen_text, until

STANDS = {"O": "Health", "M": "Metrics", "R": "Rewards", "I": "Pipeline"}


@pytest.mark.parametrize("size", [(100, 30), (200, 50)], ids=str)
@pytest.mark.parametrize("tab", STANDS)
async def test_each_pane_of_a_tab_fills_the_screen_when_zoomed(folder, tab, size):
    app = build(folder, run_dir=run_in(folder, "alpha"))
    async with app.run_test(size=size) as pilot:
        await until(app, "alpha")
        await pilot.press(tab)
        await until(app, f"─ {STANDS[tab]}")
        await pilot.pause()
        columns, rows = size
        for pane in app.screen.panes:
            app.screen.maximized = pane
            await until(app, lambda pane=pane: tuple(pane.region) == (0, 1, columns, rows - 2))
            assert "╱" not in screen_text(app)
            app.screen.minimize()
            await until(app, lambda pane=pane: not pane.has_class("-maximized"))
