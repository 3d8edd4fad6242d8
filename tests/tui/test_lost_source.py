"""A run whose source is lost: its last data stay, dim, and that they are old is said everywhere."""

from __future__ import annotations

from rltui.sources.local import LocalRunSource
from tests.tui.app_driver import build, drawn, run_in, screen_text, until


async def test_a_source_that_is_lost_keeps_its_data_and_says_so(folder):
    run = run_in(folder, "live", kind="running")
    app = build(folder, run_dir=run)
    async with app.run_test(size=(120, 30)):
        await until(app, "RUNNING")
        (run / "status.json").write_text("{torn")
        await until(app, "stale")
        assert "step 4/4" in screen_text(app)


def colors_of(app, selector):
    """Those of the text in a widget."""
    widget = app.screen.query_one(selector)
    found = [style for line in widget.render_lines(widget.size.region) for text, style, _ in line if text.strip()]
    return {style.color.name for style in found if style is not None and style.color is not None}


async def test_the_last_data_of_a_folder_that_vanished_stay_dim_and_come_back(folder):
    run = run_in(folder, "alpha", judge=True, episodes=128)
    app = build(folder, run_dir=run)
    async with app.run_test(size=(140, 40)) as pilot:
        await drawn(app)
        for key, words in (("J", "rank corr."), ("M", "mean"), ("R", "Question")):
            await pilot.press(key)
            await until(app, words)
        await pilot.press("O")
        await drawn(app)
        bright = colors_of(app, "Overview Chart")
        assert len(bright) > 1
        run.rename(folder / ".aside")
        app.opened.look_now()
        text = await until(app, "stale", "the run is gone", "SUCCEEDED")
        assert "no values yet" not in text
        await until(app, lambda: len(colors_of(app, "Overview Chart")) < len(bright))
        for key, never in (("J", "was judged"), ("M", "mean -"), ("R", "No episode"), ("I", "not known yet")):
            await pilot.press(key)
            await until(app, lambda key=key: app.screen._tab.is_mounted and f"[{key}" in screen_text(app))
            await pilot.pause()
            assert never not in screen_text(app), key
        await pilot.press("O")
        (folder / ".aside").rename(run)
        await pilot.press("r")
        await until(app, lambda: "stale" not in screen_text(app) and colors_of(app, "Overview Chart") == bright)


async def test_a_folder_that_vanished_before_it_was_read_is_said_everywhere(folder, monkeypatch):
    run = run_in(folder, "alpha")
    monkeypatch.setattr("rltui.watch.RETRY_S", 0.05)
    gone, read = folder / ".aside", LocalRunSource.status

    def status(source):
        if run.exists():
            run.rename(gone)
        return read(source)

    monkeypatch.setattr(LocalRunSource, "status", status)
    app = build(folder, run_dir=run)
    async with app.run_test(size=(140, 40)) as pilot:
        text = await until(app, "It cannot be read", "UNREADABLE")
        assert "Waiting for the first step" not in text and "STARTING" not in text
        await pilot.press("P")
        text = await until(app, "THE PAST  it cannot be read")
        assert "Waiting" not in text and "0/0" not in text
        await pilot.press("P", "7")
        text = await until(app, "7 Doctor]", "UNREADABLE")
        assert "Reading the run" not in text
