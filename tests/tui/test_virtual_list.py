"""A list of 100,000 rows: two lines a move, few bytes, the cursor keeps its row."""

from __future__ import annotations

from typing import Any

from rich.segment import Segment
from textual._compositor import CompositorUpdate
from textual.app import App, ComposeResult

from rltui.look import Look, default_look
from rltui.widgets.virtual_list import VirtualList


class Rows:
    """Rows by name."""

    def __init__(self, names: list[str]) -> None:
        self.names = names

    def __len__(self) -> int:
        return len(self.names)

    def cells(self, i: int, width: int, look: Look) -> list[Segment]:
        return [Segment(f"{i:>7} ", look.style("dim")), Segment(f"{self.names[i]:<60}", look.style("text"))]

    def key(self, i: int) -> str:
        return self.names[i]


class ListApp(App[None]):
    def __init__(self, rows: Any, *, follow: bool = False) -> None:
        super().__init__()
        self.look: Look = default_look()
        self.list = VirtualList(rows, follow=follow)
        self.bytes_sent = 0
        self.drawn: list[int] = []
        self.heard: list[tuple[str, int]] = []

    def compose(self) -> ComposeResult:
        yield self.list

    def on_mount(self) -> None:
        render_line = self.list.render_line
        self.list.render_line = lambda y: (self.drawn.append(y), render_line(y))[1]  # type: ignore[method-assign]

    def _display(self, screen: Any, renderable: Any) -> None:
        if isinstance(renderable, CompositorUpdate):
            self.bytes_sent += len(renderable.render_segments(self.console).encode())
        super()._display(screen, renderable)

    def on_virtual_list_highlighted(self, event: VirtualList.Highlighted) -> None:
        self.heard.append(("highlighted", event.index))

    def on_virtual_list_selected(self, event: VirtualList.Selected) -> None:
        self.heard.append(("selected", event.index))

    def forget(self) -> None:
        self.bytes_sent = 0
        self.drawn.clear()


def _many(count: int = 100_000) -> Rows:
    return Rows([f"episode {i}" for i in range(count)])


async def test_a_move_draws_two_lines_and_sends_less_than_a_kilobyte() -> None:
    app = ListApp(_many())
    async with app.run_test(size=(140, 40)) as pilot:
        await pilot.pause()
        for key in ("j", "down", "k"):
            app.forget()
            await pilot.press(key)
            await pilot.pause()
            assert len(app.drawn) == 2
            assert 0 < app.bytes_sent <= 1_000
        assert app.list.cursor == 1


async def test_a_held_key_sends_less_than_a_kilobyte_a_row_even_where_it_scrolls() -> None:
    app = ListApp(_many())
    async with app.run_test(size=(140, 40)) as pilot:
        await pilot.press(*["j"] * 45)
        await pilot.pause()
        app.forget()
        for _ in range(40):
            await pilot.press("j")
        await pilot.pause()
        assert app.list.cursor == 85 and app.list.is_visible_line(85)
        assert app.bytes_sent <= 40 * 1_000


async def test_keys_go_to_the_ends_and_by_pages() -> None:
    app = ListApp(_many())
    async with app.run_test(size=(140, 40)) as pilot:
        await pilot.press("G")
        assert app.list.cursor == 99_999 and app.list.top == 99_960
        await pilot.press("j")
        assert app.list.cursor == 99_999
        await pilot.press("g", "pagedown")
        assert app.list.cursor == 39 and app.list.top == 39
        await pilot.press("pageup", "enter")
        await pilot.pause()
        assert app.heard[-1] == ("selected", 0)


async def test_the_cursor_keeps_its_row_when_rows_come_before_it() -> None:
    app = ListApp(Rows(["b", "c", "d"]))
    async with app.run_test(size=(80, 20)) as pilot:
        app.list.cursor = 1
        app.list.rows.names = ["a", "b", "c", "d"]  # type: ignore[attr-defined]
        app.list.update_rows()
        await pilot.pause()
        assert app.list.cursor == 2
        app.list.rows.names = ["b"]  # type: ignore[attr-defined]
        app.list.update_rows()
        assert app.list.cursor == 0
        app.list.rows.names = []  # type: ignore[attr-defined]
        app.list.update_rows()
        await pilot.press("j", "k", "enter")
        assert app.list.cursor == 0 and ("selected", 0) not in app.heard


async def test_the_end_is_followed_from_the_last_row_only() -> None:
    rows = _many(50)
    app = ListApp(rows, follow=True)
    async with app.run_test(size=(80, 20)) as pilot:
        rows.names += ["new"]
        app.list.append_rows()
        assert app.list.cursor == 0
        await pilot.press("G")
        rows.names += ["newer"]
        app.list.append_rows()
        assert app.list.cursor == 51 and app.list.at_end


async def test_rows_that_come_out_of_view_draw_nothing() -> None:
    rows = _many(1_000)
    app = ListApp(rows)
    async with app.run_test(size=(80, 20)) as pilot:
        await pilot.pause()
        app.forget()
        rows.names += ["new"] * 500
        app.list.append_rows()
        app.list.refresh_row(700)
        await pilot.pause()
        assert app.drawn == [] and app.bytes_sent == 0


class Named(Rows):
    """Rows that do not say their number."""

    def cells(self, i: int, width: int, look: Look) -> list[Segment]:
        return [Segment(self.names[i], look.style("text"))]


async def test_rows_that_come_above_the_view_draw_nothing() -> None:
    rows = Named([f"episode {i}" for i in range(1_000)])
    app = ListApp(rows)
    async with app.run_test(size=(80, 20)) as pilot:
        app.list.cursor = 505
        await pilot.pause()
        app.forget()
        rows.names[:0] = ["new"] * 60
        app.list.update_rows()
        await pilot.pause()
        assert rows.names[app.list.cursor] == "episode 505"
        assert app.drawn == [] and app.bytes_sent == 0
        rows.names[app.list.top + 3] = "another"
        app.list.update_rows()
        await pilot.pause()
        assert app.drawn == [3]


async def test_a_smaller_screen_keeps_the_cursor_in_view() -> None:
    app = ListApp(_many())
    async with app.run_test(size=(80, 40)) as pilot:
        app.list.cursor = 35
        await pilot.resize_terminal(80, 12)
        await pilot.pause()
        assert app.list.is_visible_line(35)


async def test_a_click_puts_the_cursor_and_the_wheel_leaves_it() -> None:
    app = ListApp(_many())
    async with app.run_test(size=(80, 20)) as pilot:
        await pilot.click(VirtualList, offset=(3, 5))
        assert app.list.cursor == 5
        app.list.scroll_by(3)
        assert app.list.top == 3 and app.list.cursor == 5
