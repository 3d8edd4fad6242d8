"""The Compare screen, at three sizes and in all looks: see snapshot.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from rltui.screens.compare.episodes import SidePane
from rltui.screens.compare.screen import CompareScreen
from rltui.widgets.key_bar import KeyBar
from tests.tui.configured_run import configured
from tests.tui.test_snapshots import Open, opening, world

__all__ = ["opening", "world"]  # fixtures


@pytest.fixture(scope="module")
def compared(world: Path) -> Path:
    """Three runs, two of one label."""
    folder = Path("compared")
    folder.mkdir()
    small, more = ["training.learning_rate=7e-4"], {"learner_blocks": False}
    configured(folder, "guess", 0x1A2B3C, episodes=640, **more)
    configured(folder, "guess", 0x1A2B77, *small, "training.lora.r=32", episodes=640, **more)
    configured(folder, "judged", 0x99, *small, episodes=320, judge=True, turns=2, **more)
    return folder


async def test_compare(opening: Open, compared: Path) -> None:
    async with opening(compared) as walk:
        await walk.until("3 runs")
        await walk.press("6")
        await walk.until("Mark two runs with space in Runs")
        await walk.snap("compare_empty")
        await walk.press("1", "space", "space", "space", "6")
        screen = walk.app.get_screen("compare")
        assert isinstance(screen, CompareScreen)
        await walk.until(lambda: screen._comparison is not None and all(run.whole for run in screen._comparison.runs))
        await walk.until("keys differ")
        screen.query_one(KeyBar).clear_notice()
        await walk.snap("compare", wide=True)
        await walk.press("tab", "tab")
        await walk.until("reward/mean")
        await walk.snap("compare_curves")
        screen.enter(2)
        await walk.until("by difference")
        if not screen.narrow:
            await walk.until(lambda: [pane.side for pane in screen.query(SidePane) if pane.display and pane.side])
        await walk.snap("compare_seeds", wide=True)
