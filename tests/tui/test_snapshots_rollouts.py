"""The group view, two members word by word, and the tokens of an episode, at three sizes and in all looks."""

from __future__ import annotations

from tests.tui.test_snapshots import Open, opening, run, world  # noqa: F401


async def test_group_diff_and_tokens(opening: Open) -> None:  # noqa: F811
    async with opening(run=run("anna")) as walk:
        await walk.until("step 20/20")
        await walk.press("R", "/", *"n = 100", "enter")
        await walk.until("1 of 336")
        await walk.press("enter")
        await walk.until("Episode 100")
        await walk.press("c", "c", *["right"] * 24)
        await walk.until("learner -")
        await walk.snap("rollout_tokens")
        await walk.press("escape", "v")
        await walk.until("turns locked")
        await walk.until("> It is")
        await walk.snap("rollouts_group", wide=True)
        await walk.press("d")
        await walk.until("the next member")
        await walk.snap("rollouts_diff")
