"""The Judge and the Pipeline tab, at three sizes and in all looks: see snapshot.py."""

from __future__ import annotations

import json
from pathlib import Path

from rltui.widgets.drawn import Drawn
from rltui.widgets.scatter import Scatter
from tests.tui.app_driver import run_in
from tests.tui.test_snapshots import Open, opening, run, world

__all__ = ["opening", "world"]  # fixtures


def judged() -> str:
    """A run with a judge that still goes on, and waits for the task app."""
    path = Path("judged", f"mila-rl_{9:016x}")
    return str(path if path.exists() else run_in(path.parent, "mila", "running", 128, 9, judge=True))


async def test_pipeline(opening: Open) -> None:
    async with opening(run=judged()) as walk:
        await walk.until("step 8/")
        await walk.press("I")
        await walk.until("gen ")
        await walk.snap("pipeline", wide=True)
        if walk.variant == "80x24":
            await walk.press("tab")
        await walk.press("enter")
        await walk.until("shorter by")
        await walk.snap("pipeline_wait", only="#pane-waits")


async def test_pipeline_before_the_first_step(opening: Open) -> None:
    async with opening(run="new/empty-rl_0000000000000007") as walk:
        await walk.until("Waiting for the first step")
        await walk.press("I")
        await walk.until("not known yet")
        await walk.snap("pipeline_empty")


async def test_pipeline_of_64_gpus_and_512_workers(opening: Open) -> None:
    path = Path("large", f"nina-rl_{10:016x}")
    if not path.exists():
        run_in(path.parent, "nina", number=10)
        status = json.loads((path / "status.json").read_bytes())
        (gpu, *_) = status["pipeline"]["gpus"]
        roles = ["inference"] * 48 + ["learner"] * 16
        gpus = [{**gpu, "index": i, "role": role, "util": i / 64} for i, role in enumerate(roles)]
        status["pipeline"].update(gpus=gpus, running=431, max=512)
        (path / "status.json").write_text(json.dumps(status))
    async with opening(run=str(path)) as walk:
        await walk.until("step 4/4")
        await walk.press("I")
        machine = walk.app.screen.query_one("#machine", Drawn)
        while not machine.has_focus:
            await walk.press("tab")
        await walk.until("of 64")
        await walk.snap("pipeline_64_gpus")
        await walk.press("pagedown", "pagedown")
        await walk.until(lambda: machine.top == 2 * (machine.page_size - 1))
        await walk.snap("pipeline_64_gpus_below", only="#pane-machine")


async def test_judge(opening: Open) -> None:
    async with opening(run=judged()) as walk:
        await walk.until("step 8/")
        await walk.press("J")
        await walk.until("fact")
        if walk.variant != "80x24":
            await walk.until("limit 30 s")
            await walk.until("in flight")
        await walk.snap("judge", wide=True)
        scatter = walk.app.screen.query_one(Scatter)
        await walk.press("tab")
        await walk.until(lambda: scatter.has_focus)
        await walk.press("left")
        await walk.snap("judge_point", only="Scatter")


async def test_judge_of_a_run_without_one(opening: Open) -> None:
    async with opening(run=run("anna")) as walk:
        await walk.until("step 20/20")
        await walk.press("J")
        await walk.until("No episode of this run was judged")
        await walk.snap("judge_none")
