"""The past of a run and the question for a time, at three sizes and in all looks: see snapshot.py."""

from __future__ import annotations

from rltui.widgets.key_bar import KeyBar
from tests.tui.test_snapshots import Open, opening, run, world

__all__ = ["opening", "world"]  # fixtures


async def test_the_past(opening: Open) -> None:
    async with opening(run=run("anna")) as walk:
        await walk.until("step 20/20")
        await walk.until(" steps ")
        await walk.press("P")
        await walk.until("step 20 of 20")
        await walk.press("<", "<", "<", "<", ",")
        await walk.until("step 11/20")
        if walk.variant != "80x24":
            await walk.until("iteration 5")
        await walk.until("10|" if walk.variant == "ascii" else "10│")  # the charts end there, too
        walk.app.screen.query_one(KeyBar).clear_notice()
        await walk.snap("past", wide=True)


async def test_a_time_is_asked_for(opening: Open) -> None:
    async with opening(run=run("anna")) as walk:
        await walk.until("step 20/20")
        await walk.press("L")
        await walk.until("following")
        await walk.press("t")
        await walk.until("Go to a time")
        await walk.press(*"25:00", "enter")
        await walk.until("no time: give")
        await walk.snap("logs_time", only="Pane")
