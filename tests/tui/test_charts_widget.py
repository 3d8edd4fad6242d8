"""The chart on a screen: it repaints what changed, draws nothing while hidden, and its keys do what they say."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest
from textual import events
from textual.app import App, ComposeResult
from textual.geometry import Region

from rltui.actions.table import of_context
from rltui.charts.canvas import plain
from rltui.charts.parts import Axis, Mark, Series
from rltui.charts.pyramid import Pyramid
from rltui.look import ColorMode, Look, ThemeFiles, default_look
from rltui.widgets import chart as chart_module
from rltui.widgets.chart import Chart

BRAILLE = re.compile("[\u2801-\u28ff]")


class Watched(Chart):
    repainted: list[Region] | None = None

    def refresh(self, *regions: Region, **options: Any) -> Any:
        if self.repainted is not None:
            self.repainted.extend(regions or [Region(0, 0, *self.size)])
        return super().refresh(*regions, **options)


class Screenful(App[None]):
    CSS = "Screen { layout: vertical; } Chart { width: 60; height: 10; }"

    def __init__(self, *charts: Chart) -> None:
        super().__init__()
        self.look = default_look()
        self.charts = charts
        self.seen: list[object] = []

    def compose(self) -> ComposeResult:
        yield from self.charts

    def on_chart_cursor_moved(self, message: Chart.CursorMoved) -> None:
        self.seen.append(message.x)
        for chart in self.charts:
            chart.set_cursor(message.x)

    def on_chart_opened(self, message: Chart.Opened) -> None:
        self.seen.append(("opened", message.x))


def series(ys: list[float], name: str = "reward") -> Series:
    pyramid = Pyramid()
    pyramid.extend(range(1, len(ys) + 1), ys)
    return Series(name, pyramid, 0)


def shown(chart: Chart) -> list[str]:
    return [chart.render_line(y).text for y in range(chart.size.height)]


async def test_a_new_point_repaints_only_the_lines_that_changed() -> None:
    chart, data = Watched(), series([0.0, 1.0] + [0.5] * 500)
    async with Screenful(chart).run_test(size=(60, 20)):
        chart.set_series([data])
        before = shown(chart)
        chart.repainted = []
        chart.refresh_data()
        assert chart.repainted == []
        data.pyramid.append(503, 0.5)
        chart.refresh_data()
        after = shown(chart)
        changed = [y for y in range(10) if before[y] != after[y]]
        assert 0 < len(changed) < 5
        assert [region.y for region in chart.repainted] == changed
        assert all(region.x >= 50 for region in chart.repainted)  # at the right end, where the point is


async def test_a_hidden_chart_draws_nothing_and_is_right_when_it_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    draws = []
    real = chart_module.draw
    monkeypatch.setattr(chart_module, "draw", lambda *args: draws.append(1) or real(*args))
    chart, data = Chart(), series([1.0] * 9)
    async with Screenful(chart).run_test(size=(60, 20)) as pilot:
        chart.set_series([data])
        chart.display = False
        await pilot.pause()
        draws.clear()
        data.pyramid.append(77, 1.0)
        chart.refresh_data()
        assert not draws
        chart.display = True
        await pilot.pause()
        assert draws and shown(chart)[-1].endswith("77")


async def test_what_a_chart_looked_like_before_it_was_hidden_is_not_kept() -> None:
    """A tab that is told of its data in the moment in which it comes."""

    class Coming(Chart):
        is_on_screen_now = True

        @property
        def is_on_screen(self) -> bool:
            return self.is_on_screen_now

    chart, data = Coming(), series([])
    async with Screenful(chart).run_test(size=(60, 20)) as pilot:
        chart.set_series([data])
        await pilot.pause()
        rows = chart.render_lines(chart.size.region)
        assert "no values" in "".join(row.text for row in rows)
        chart.is_on_screen_now = False
        data.pyramid.extend([1, 2], [1.0, 2.0])
        chart.refresh_data()
        chart.is_on_screen_now = True
        rows = chart.render_lines(chart.size.region)
        assert "no values" not in "".join(row.text for row in rows)


async def test_the_cursor_moves_by_key_is_shared_and_opens() -> None:
    first, second = Chart(), Chart()
    app = Screenful(first, second)
    async with app.run_test(size=(60, 20)) as pilot:
        first.set_series([series([0.1, 0.2, 0.3])])
        second.set_series([series([5.0, 6.0, 7.0])])
        first.focus()
        await pilot.press("enter", "h", "left", "enter")
        assert app.seen == [("opened", 3), 3, 2, ("opened", 2)]
        assert "step 2  0.200" in shown(first)[-1] and "step 2  6" in shown(second)[-1]
        await pilot.press("l", "right")
        assert app.seen[-2:] == [3, None] and second.options.cursor is None


async def test_zoom_ends_following_and_out_again_follows() -> None:
    chart, data = Chart(), series([float(i) for i in range(101)])
    async with Screenful(chart).run_test(size=(60, 20)) as pilot:
        chart.set_series([data])
        chart.focus()
        await pilot.press("+")
        assert chart.options.view == (51, 101)
        assert "not following" in shown(chart)[-1]
        data.pyramid.append(150, 1.0)
        chart.refresh_data()
        assert chart.options.view == (51, 101)
        await pilot.press("-", "-", "-")
        assert chart.options.view is None and shown(chart)[-1].endswith("150")
        await pilot.press(*"+" * 40)
        assert chart.options.view is not None and chart.options.view[1] - chart.options.view[0] >= 2


async def test_keys_of_scales_smoothing_and_labels() -> None:
    axes = (Axis(), Axis("time", lambda x: f"{x:.0f} min"))
    chart = Chart(ema=0.6, axes=axes)
    async with Screenful(chart).run_test(size=(60, 20)) as pilot:
        chart.set_series([series([0.0, 1.0, 0.0, 2.0, 0.0])])
        chart.focus()
        await pilot.press("Y")
        assert chart.description.notes == ("log y needs > 0, lowest is 0",)
        await pilot.press("Y", "a")
        assert shown(chart)[-1].endswith("5 min")
        smooth = chart.description.last
        await pilot.press("e")
        assert chart.description.last == 0.0 and smooth != 0.0
        await pilot.press("e", "o")
        assert chart.description.last == smooth and "hidden" in chart.description.notes[0]


async def test_every_action_of_the_table_has_its_method() -> None:
    for action in of_context("chart"):
        assert inspect.isfunction(getattr(Chart, f"action_{action.name}"))


async def test_a_long_series_is_smoothed_in_slices_and_drawn_raw_until_then() -> None:
    chart = Chart(ema=0.9)
    async with Screenful(chart).run_test(size=(60, 20)) as pilot:
        chart.set_series([series([0.0] * 50_000 + [1.0])])
        assert chart.description.last == 1.0
        for _ in range(200):
            if chart.description.last != 1.0:
                break
            await pilot.pause(0.01)
        assert chart.description.last == pytest.approx(0.1)


async def test_mouse_click_drag_and_wheel() -> None:
    chart = Chart()
    app = Screenful(chart)
    async with app.run_test(size=(60, 20)) as pilot:
        chart.set_series([series([float(i) for i in range(101)])])
        await pilot.click(chart, offset=(30, 4))
        assert chart.options.cursor is not None and 40 <= chart.options.cursor <= 60
        await pilot.mouse_down(chart, offset=(20, 4))
        await pilot.mouse_up(chart, offset=(40, 4))
        view = chart.options.view
        assert view is not None and 20 < view[0] < 50 < view[1] < 80
        chart.post_message(events.MouseScrollDown(chart, 30, 4, 0, 1, 0, False, False, False))
        await pilot.pause()
        assert chart.options.view is None or chart.options.view[1] - chart.options.view[0] > view[1] - view[0]


async def test_names_and_labels_cannot_carry_escapes_or_markup() -> None:
    chart = Chart()
    async with Screenful(chart).run_test(size=(60, 20)):
        evil = "\x1b]52;c;AAAA\x07[bold]run\u202e"
        chart.set_series([series([1.0] * 20, evil), series([2.0] * 20, evil)])
        chart.set_options(marks=(Mark(5, evil),), cursor=5)
        drawn = "".join(shown(chart))
        assert "[bold]run" in drawn and drawn.isprintable()


async def test_another_look_draws_again() -> None:
    chart = Chart()
    app = Screenful(chart)
    async with app.run_test(size=(60, 20)):
        chart.set_series([series([0.0, 1.0, 0.5])])
        assert not "".join(plain(chart._drawing.lines)).isascii()
        app.look = Look(ThemeFiles().load("dark"), ColorMode.NONE, ascii=True)
        assert "".join(shown(chart)).isascii()
        colored = [s for y in range(10) for s in chart.render_line(y) if s.style and s.style.color]
        assert {s.style.color for s in colored} <= {chart.rich_style.color}


async def test_blocks_stand_for_braille_where_a_font_has_none() -> None:
    chart = Chart()
    async with Screenful(chart).run_test(size=(60, 20)) as pilot:
        chart.set_series([series([0.0, 1.0, 0.5])])
        assert BRAILLE.search("".join(plain(chart._drawing.lines)))
        pilot.app.look = Look(ThemeFiles().load("dark"), ColorMode.NONE, ascii=False, blocks=True)
        drawn = "".join(shown(chart))
        assert not BRAILLE.search(drawn) and set(drawn) & set("▁▂▃▄▅▆▇█")


async def test_pan_moves_a_zoomed_range_as_far_as_there_are_points() -> None:
    chart = Chart()
    async with Screenful(chart).run_test(size=(60, 20)) as pilot:
        chart.set_series([series([float(i) for i in range(101)])])
        chart.focus()
        await pilot.press("{")
        assert chart.options.view is None  # all of it shows
        await pilot.press("+", "+", "{")
        assert chart.options.view == (69.75, 94.75)
        await pilot.press(*"{{{{{{{{{{{{")
        assert chart.options.view == (1, 26)
        await pilot.press("}")
        assert chart.options.view == (7.25, 32.25)


async def test_the_cursor_of_runs_of_unequal_length_reaches_the_end_of_the_longest() -> None:
    chart, long = Chart(), series([float(i) for i in range(30)], "long")
    async with Screenful(chart).run_test(size=(60, 20)) as pilot:
        chart.set_series([series([1.0] * 5, "short"), Series("long", long.pyramid, 1)])
        chart.focus()
        await pilot.press("h", "h")
        assert chart.options.cursor == 29
        assert shown(chart)[0].startswith("● short 1  ■ long 28")
