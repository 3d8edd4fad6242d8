"""The line API: what is repainted, and nothing else."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.app import App, ComposeResult
from textual.containers import Container

from rltui.look import ColorMode, Look, default_look
from rltui.widgets.bar import Bar
from rltui.widgets.lines import Lines, look_of, safe_segments
from rltui.widgets.pane import Pane
from rltui.widgets.prompt import Prompt


class Counting(Lines):
    """Says which lines were asked for."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.line_count = count
        self.asked: list[int] = []

    def line(self, y: int, width: int) -> list[Segment]:
        self.asked.append(y)
        return [Segment(f"line {y}", look_of(self).style("text"))]


class LinesApp(App[None]):
    def __init__(self, count: int = 1_000) -> None:
        super().__init__()
        self.look: Look = default_look()
        self.lines = Counting(count)

    def compose(self) -> ComposeResult:
        yield self.lines


async def test_only_what_is_visible_is_asked_for() -> None:
    app = LinesApp(1_000_000)
    async with app.run_test(size=(80, 20)) as pilot:
        await pilot.pause()
        assert set(app.lines.asked) == set(range(20))


async def test_a_refreshed_line_is_drawn_alone() -> None:
    app = LinesApp()
    async with app.run_test(size=(80, 20)) as pilot:
        await pilot.pause()
        app.lines.asked.clear()
        app.lines.refresh_lines([3, 500])
        await pilot.pause()
        assert app.lines.asked == [3]


async def test_lines_that_come_below_the_view_repaint_nothing() -> None:
    app = LinesApp(10)
    async with app.run_test(size=(80, 20)) as pilot:
        await pilot.pause()
        app.lines.asked.clear()
        app.lines.line_count = 12
        await pilot.pause()
        assert app.lines.asked == [10, 11]
        app.lines.line_count = 100
        await pilot.pause()
        app.lines.asked.clear()
        app.lines.line_count = 100_000
        await pilot.pause()
        assert app.lines.asked == []


async def test_fewer_lines_scroll_back_to_what_there_is() -> None:
    app = LinesApp(1_000)
    async with app.run_test(size=(80, 20)) as pilot:
        await pilot.pause()
        app.lines.scroll_to_top(990)
        assert app.lines.top == 980 and app.lines.at_end
        app.lines.line_count = 30
        assert app.lines.top == 10
        app.lines.line_count = 5
        assert app.lines.top == 0


async def test_a_neighbour_of_the_page_comes_in_by_half_a_page() -> None:
    app = LinesApp()
    async with app.run_test(size=(80, 20)) as pilot:
        await pilot.pause()
        app.lines.scroll_line_into_view(19)
        assert app.lines.top == 0
        app.lines.scroll_line_into_view(20)
        assert app.lines.top == 10


def test_the_last_gate_cleans_what_a_widget_forgot() -> None:
    segments = safe_segments([Segment("a\x1b[2Jb\x07"), Segment("ok"), Segment("x", None, [(1,)])])  # type: ignore[list-item]
    assert [segment.text for segment in segments] == ["ab", "ok", ""]
    assert all(not segment.control for segment in segments)


class PaneApp(App[None]):
    def __init__(self) -> None:
        super().__init__()
        self.look: Look = default_look()
        self.pane = Pane(Counting(5), Prompt("find"), title="Runs [red]of\x1b[2J x")
        self.heard: list[tuple[str, str]] = []

    def compose(self) -> ComposeResult:
        yield self.pane

    def on_prompt_changed(self, event: Prompt.Changed) -> None:
        self.heard.append(("changed", event.value))

    def on_prompt_submitted(self, event: Prompt.Submitted) -> None:
        self.heard.append(("submitted", event.value))

    def on_prompt_cancelled(self, event: Prompt.Cancelled) -> None:
        self.heard.append(("cancelled", event.value))


def _row(app: App[None], y: int) -> str:
    return "".join(segment.text for segment in app.screen._compositor.render_strips()[y])


async def test_a_pane_says_its_title_and_state_and_is_no_markup() -> None:
    app = PaneApp()
    async with app.run_test(size=(60, 10)) as pilot:
        app.pane.set_info("3 of 310")
        app.pane.set_subtitle("412 of 100 000")
        await pilot.pause()
        top, bottom = _row(app, 0), _row(app, 9)
        assert "Runs [red]of x" in top and top.rstrip().endswith("3 of 310 ─╮")
        assert "412 of 100 000" in bottom
        assert cell_len(top) == cell_len(bottom) == 60


async def test_a_new_subtitle_repaints_its_row_only() -> None:
    app = PaneApp()
    async with app.run_test(size=(60, 10)) as pilot:
        await pilot.pause()
        regions: list[object] = []
        refresh = app.pane.refresh
        app.pane.refresh = lambda *given, **named: regions.extend(given) or refresh(*given, **named)  # type: ignore[method-assign]
        app.pane.set_subtitle("413 of 100 000")
        assert [(region.height, region.width) for region in regions] == [(1, 60)]  # type: ignore[attr-defined]
        app.pane.set_subtitle("413 of 100 000")
        assert len(regions) == 1


async def test_a_zoomed_pane_has_the_screen() -> None:
    app = PaneApp()
    async with app.run_test(size=(60, 10)) as pilot:
        app.pane.zoomed = True
        await pilot.pause()
        assert app.pane.zoomed and app.screen.maximized is app.pane
        app.pane.zoomed = False
        await pilot.pause()
        assert not app.pane.zoomed and app.screen.maximized is None


async def test_a_prompt_keeps_what_was_typed() -> None:
    app = PaneApp()
    async with app.run_test(size=(60, 10)) as pilot:
        prompt = app.query_one(Prompt)
        assert not prompt.display
        prompt.open()
        await pilot.press("a", "b", "escape")
        await pilot.pause()
        assert app.heard == [("changed", "a"), ("changed", "ab"), ("cancelled", "ab")]
        assert not prompt.display
        prompt.open()
        await pilot.pause()
        assert prompt.value == "ab"
        await pilot.press("enter")
        await pilot.pause()
        assert app.heard[-1] == ("submitted", "ab")


async def test_a_pane_shows_what_it_was_told_before_it_was_mounted() -> None:
    class Early(Pane):
        def on_mount(self) -> None:
            super().on_mount()
            assert not self.is_mounted
            self.set_info("144 episodes")

    app = PaneApp()
    app.pane = Early(Counting(5), title="Episodes")
    async with app.run_test(size=(60, 10)) as pilot:
        await pilot.pause()
        assert _row(app, 0).rstrip().endswith("144 episodes ─╮")


async def test_titles_and_bars_are_ascii_where_the_terminal_knows_no_more() -> None:
    class Told(Bar):
        def parts(self, width: int) -> list[tuple[str, Style]]:
            return [("cut here… ↓", Style())]

    app = PaneApp()
    app.look = Look(default_look().theme, ColorMode.NONE, ascii=True)
    app.pane = Pane(Told(), title="a title of its own · " * 5)
    async with app.run_test(size=(60, 10)) as pilot:
        app.pane.set_info("1 → 2")
        app.pane.set_subtitle("nobody sees the end of this … " * 4)
        await pilot.pause()
        rows = "".join(_row(app, y) for y in range(10))
        assert "cut here~ v" in rows and "1 > 2" in rows
        assert rows.isascii(), rows


class Hiding(PaneApp):
    def compose(self) -> ComposeResult:
        with Container():
            yield self.pane


async def test_what_is_said_of_a_pane_that_is_hidden_for_a_moment_stands_in_its_border() -> None:
    """Its rows are kept from the time before; without a place it has no size by which the last one is found."""
    app = Hiding()
    async with app.run_test(size=(60, 10)) as pilot:
        await pilot.pause()
        assert "of the last" not in _row(app, 9)
        hidden = app.query_one(Container)
        hidden.display = False
        app.screen._compositor._full_map_invalidated = True  # as by a widget that was mounted meanwhile
        app.pane.set_info("3 of 4")
        app.pane.set_subtitle("of the last")
        hidden.display = True
        await pilot.pause()
        assert "3 of 4" in _row(app, 0) and "of the last" in _row(app, 9)


class Word(Lines):
    word = "before"

    def line(self, y: int, width: int) -> list[Segment]:
        return [Segment(self.word, look_of(self).style("text"))]


class WordApp(App[None]):
    def __init__(self) -> None:
        super().__init__()
        self.look: Look = default_look()

    def compose(self) -> ComposeResult:
        with Container():
            yield Word()

    def on_mount(self) -> None:
        self.query_one(Word).line_count = 1


@pytest.mark.parametrize("again", [lambda lines: lines.refresh_line(0), Lines.refresh_changed])
async def test_a_line_that_changes_while_it_is_hidden_for_a_moment_is_shown(
    again: Callable[[Word], None],
) -> None:
    app = WordApp()
    async with app.run_test(size=(60, 10)) as pilot:
        await pilot.pause()
        assert "before" in _row(app, 0)
        hidden, lines = app.query_one(Container), app.query_one(Word)
        hidden.display = False
        app.screen._compositor._full_map_invalidated = True
        lines.word = "after"
        again(lines)
        hidden.display = True
        await pilot.pause()
        assert "after" in _row(app, 0)
