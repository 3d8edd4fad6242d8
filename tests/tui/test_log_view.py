"""Logs: folding of progress bars, levels, the bounded store, and the view on it."""

from __future__ import annotations

from textual.app import App, ComposeResult

from rltui.look import Look, default_look
from rltui.model.find import Finder, FindError
from rltui.model.log_lines import Folder, Level, Levels, taken_apart
from rltui.model.log_store import LogStore
from rltui.widgets.finding import FindPane
from rltui.widgets.log_view import LogView


def _shown(raw: list[str]) -> list[str]:
    folder, lines = Folder(), list[str]()
    for line in raw:
        for edit in folder.edits(line):
            if edit.back:
                lines[-edit.back] = edit.text
            else:
                lines.append(edit.text)
    return lines


def test_a_bar_that_repaints_itself_is_one_line() -> None:
    assert _shown(["Loading:  0%\rLoading: 50%\rLoading: 100%", "done"]) == ["Loading: 100%", "done"]


def test_bars_that_move_the_cursor_up_are_a_line_each() -> None:
    raw = ["start", "a 10%", "b 10%", "\x1b[2Aa 50%", "b 50%", "\x1b[A\x1b[Aa 100%", "b 100%", "end"]
    assert _shown(raw) == ["start", "a 100%", "b 100%", "end"]
    # Written as one stream, with the cursor brought down by line feeds.
    assert _shown(["a 1%", "b 1%\x1b[A\ra 2%", "\rb 2%", "end"]) == ["a 2%", "b 2%", "end"]


def test_a_cursor_that_goes_up_beyond_everything_breaks_nothing() -> None:
    assert _shown(["a", "\x1b[9999Ahello", "x"]) == ["hello", "x"]
    store = LogStore()
    store.append(["\x1b[9999Ahello", "world"], "a")
    assert [store.text(i) for i in range(len(store))] == ["hello", "world"]


def test_levels_of_ours_of_others_and_of_tracebacks() -> None:
    levels = Levels()
    said = [
        ("2026-01-01T14:02:03.1Z WARNING trainer.judge: slow", Level.WARNING),
        ("plain", Level.INFO),
        ("\x1b[31mERROR\x1b[0m boom", Level.ERROR),
        ("  its second line", Level.ERROR),
        ("Traceback (most recent call last):", Level.ERROR),
        ('  File "x.py", line 1', Level.ERROR),
        ("ValueError: INFO is not a level here", Level.ERROR),
        ("after it", Level.INFO),
        ("torch.cuda.OutOfMemoryError: no", Level.ERROR),
        ("x.py:3: UserWarning: hm", Level.INFO),
        ("DEBUG x", Level.DEBUG),
    ]
    assert [levels.of(line) for line, _ in said] == [level for _, level in said]


def test_only_a_head_of_ours_is_taken_apart() -> None:
    line = taken_apart("2026-01-01T14:02:03.123Z ERROR trainer.learner: bad")
    assert (line.time, line.level, line.text) == ("14:02:03", "ERROR", "trainer.learner: bad")
    assert taken_apart("2026-01-01T14:02:03Z SHOUTING x").level == ""


def test_the_store_is_bounded_in_lines_and_in_characters_and_counts_what_went() -> None:
    store = LogStore(max_lines=1_000)
    store.append(f"line {i}" for i in range(5_000))
    assert store.total <= 1_000 and store.dropped == 5_000 - store.total
    assert store.text(len(store) - 1) == "line 4999"
    small = LogStore(max_chars=100_000)
    small.append("x" * 999 for _ in range(1_000))
    assert small.total <= 101 and small.dropped == 1_000 - small.total


def test_a_filter_and_a_change_of_a_line_that_it_hides() -> None:
    store = LogStore()
    store.append(["INFO a", "ERROR b", "INFO 10%"], "one")
    store.append(["WARNING c"], "two")
    store.show(level=Level.WARNING)
    assert [store.text(i) for i in range(len(store))] == ["ERROR b", "WARNING c"]
    assert store.append(["\x1b[AINFO 20%"], "one").changed == []
    store.show(level=Level.DEBUG, only="one")
    assert [store.text(i) for i in range(len(store))][-1] == "INFO 20%"


def test_a_bad_or_endless_expression_says_so() -> None:
    try:
        Finder("/a(/")
    except FindError as error:
        assert "column" in str(error)
    else:
        raise AssertionError("a(/ is no expression")
    try:
        Finder("/(a+)+$/")
    except FindError as error:
        assert "for ever" in str(error)
    else:
        raise AssertionError("nobody waits for this")
    hostile = [(i, "a" * 4_000 + "!") for i in range(1_000)]
    try:
        Finder("/a+a+$/").first(iter(hostile))
    except FindError as error:
        assert "too long" in str(error)
    else:
        raise AssertionError("nobody waits for this either")
    assert Finder("/b+/").first(iter([(7, "abb")])) == 7  # and the next search is not hurt


def test_only_the_beginning_of_a_line_is_searched() -> None:
    assert not Finder("needle").matches("x" * 4_096 + "needle")
    assert Finder("needle").matches("NEEDLE") and not Finder("Needle").matches("needle")


class LogApp(App[None]):
    def __init__(self, view: LogView) -> None:
        super().__init__()
        self.look: Look = default_look()
        self.view = view
        self.drawn: list[int] = []

    def compose(self) -> ComposeResult:
        yield FindPane(self.view, title="Logs")

    def rows(self) -> list[str]:
        strips = self.screen._compositor.render_strips()[1:-1]
        return ["".join(segment.text for segment in strip)[1:-1].rstrip() for strip in strips]

    def count(self) -> None:
        render_line = self.view.render_line
        self.view.render_line = lambda y: (self.drawn.append(y), render_line(y))[1]  # type: ignore[method-assign]


async def test_a_line_of_a_megabyte_lays_out_only_what_is_visible() -> None:
    app = LogApp(LogView(wrap=True))
    async with app.run_test(size=(80, 24)) as pilot:
        app.view.append(["before", "z" * 1_000_000, "after"])
        await pilot.pause()
        assert app.rows()[-1] == "after"
        await pilot.press("g")
        await pilot.pause()
        assert app.rows()[:2] == ["before", "z" * 78]
        # Two pieces of 4,096 characters at each end, not the 12,800 rows of all of it.
        assert app.view.rows_laid_out < 500
        await pilot.press("W")
        await pilot.pause()
        assert app.rows()[:3] == ["before", "z" * 77 + "…", "after"]


async def test_new_lines_draw_only_themselves() -> None:
    app = LogApp(LogView())
    async with app.run_test(size=(80, 24)) as pilot:
        app.view.append(["one", "two", "three"])
        await pilot.pause()
        app.count()
        app.view.append(["four"])
        await pilot.pause()
        assert sorted(set(app.drawn)) == [2, 3]  # the new one, and the row that the cursor left
        app.drawn.clear()
        await pilot.press("k")
        await pilot.pause()
        app.drawn.clear()
        app.view.append([f"line {i}" for i in range(100)])
        await pilot.pause()
        app.drawn.clear()
        app.view.append(["below the view"])
        await pilot.pause()
        assert app.drawn == []


async def test_following_ends_above_the_last_line_and_counts_what_is_unread() -> None:
    app = LogApp(LogView())
    async with app.run_test(size=(80, 24)) as pilot:
        app.view.append([f"line {i}" for i in range(100)])
        await pilot.pause()
        assert app.view.follow and app.rows()[-1] == "line 99" and app.view.unread == 0
        await pilot.press("k")
        app.view.append(["line 100", "line 101"])
        await pilot.pause()
        assert not app.view.follow and app.view.unread == 2 and app.rows()[-1] == "line 99"
        assert "2 new below" in app.view.status
        await pilot.press("F")
        await pilot.pause()
        assert app.view.follow and app.view.unread == 0 and app.rows()[-1] == "line 101"


async def test_lines_are_unread_while_the_view_is_hidden() -> None:
    app = LogApp(LogView())
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        app.query_one(FindPane).display = False
        await pilot.pause()
        app.view.append(["a", "b"])
        assert app.view.unread == 2
        app.query_one(FindPane).display = True
        await pilot.pause()
        assert app.view.unread == 0 and app.rows()[:2] == ["a", "b"]


async def test_old_lines_go_and_the_view_stays_on_its_line() -> None:
    app = LogApp(LogView(LogStore(max_lines=100)))
    async with app.run_test(size=(80, 24)) as pilot:
        app.view.append([f"line {i}" for i in range(90)])
        await pilot.press("pageup", "pageup")
        line = app.view.store.text(app.view.cursor[0])
        app.view.append([f"line {i}" for i in range(90, 105)])
        await pilot.pause()
        assert app.view.store.text(app.view.cursor[0]) == line and line in app.rows()
        assert "older lines are cut" in app.view.status


async def test_the_level_filter_keeps_the_cursor_near_its_line() -> None:
    app = LogApp(LogView())
    async with app.run_test(size=(80, 24)) as pilot:
        app.view.append([f"{'ERROR' if i % 10 == 0 else 'INFO'} {i}" for i in range(500)])
        await pilot.press("g", *["j"] * 30)
        app.view.show_level(Level.ERROR)
        await pilot.pause()
        assert app.view.store.text(app.view.cursor[0]) == "ERROR 30"
        assert "error and above: 50 of 500" in app.view.status


async def test_find_goes_to_matches_and_round_the_end() -> None:
    app = LogApp(LogView())
    async with app.run_test(size=(80, 24)) as pilot:
        app.view.append([f"line {i}" for i in range(5_000)])
        await pilot.press("g")
        app.view.find("/9[0-9]7$/")
        await pilot.pause()
        assert app.view.store.text(app.view.cursor[0]) == "line 907"
        await pilot.press("n")
        await pilot.pause()
        assert app.view.store.text(app.view.cursor[0]) == "line 917"
        await pilot.press("N", "N")
        await pilot.pause()
        assert app.view.store.text(app.view.cursor[0]) == "line 4997"
        app.view.find("nowhere")
        await pilot.pause()
        await pilot.pause()
        assert "no match" in "".join(s.text for s in app.screen._compositor.render_strips()[-1])


async def test_what_is_typed_is_found_and_enter_gives_the_keys_back() -> None:
    app = LogApp(LogView())
    async with app.run_test(size=(80, 24)) as pilot:
        app.view.append([f"line {i}" for i in range(5_000)])
        await pilot.press("g", "slash", *"4990", "enter")
        await pilot.pause()
        assert app.view.store.text(app.view.cursor[0]) == "line 4990" and app.view.has_focus
        await pilot.press("slash")
        await pilot.pause()
        await pilot.press("escape")
        await pilot.pause()
        assert app.view.finder is None and app.view.has_focus


async def test_two_sources_stand_in_a_column() -> None:
    app = LogApp(LogView())
    async with app.run_test(size=(80, 24)) as pilot:
        app.view.append(["2026-01-01T14:02:03Z INFO x: hello"], "coordinator")
        app.view.append(["Loading 1%\rLoading 9%"], "inference-0")
        await pilot.pause()
        assert app.rows()[:2] == ["coordinator 14:02:03 INFO     x: hello", "inference-0 Loading 9%"]
        app.view.show_source("inference-0")
        await pilot.pause()
        assert app.rows()[:2] == ["Loading 9%", ""]
