"""The bars of one line: which keys they show, that nothing is cut, and that only changed cells are repainted."""

from __future__ import annotations

from typing import ClassVar

from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.geometry import Region
from textual.widget import Widget

from rltui.actions.keymap import Keymap, default_keys
from rltui.actions.keynames import key_name
from rltui.actions.table import BY_ID
from rltui.look import default_look
from rltui.widgets.bar import Bar
from rltui.widgets.bindings import Offer, bindings, offered, textual_keymap
from rltui.widgets.header import Header
from rltui.widgets.key_bar import Item, KeyBar, items_of, packed


class Log(Widget, can_focus=True, inherit_bindings=False):
    """Does some of what the context "logs" has, and not the rest."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("logs")
    did = ""

    def action_follow(self) -> None:
        self.did += "follow "

    def action_find(self) -> None:
        self.did += "find "

    def action_next_match(self) -> None:
        self.did += "next "

    def action_previous_match(self) -> None:
        self.did += "previous "

    def action_write(self) -> None:
        self.did += "write "


class Screenful(Vertical, inherit_bindings=False):
    BINDINGS: ClassVar[list[BindingType]] = bindings("monitor")
    did = ""

    def action_follow(self) -> None:
        self.did += "follow "

    def action_steer(self) -> None:
        self.did += "steer "

    def action_logs(self) -> None:
        self.did += "logs "


class Tab(Vertical, inherit_bindings=False):
    """Does what the log in it leaves to it."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("logs")
    did = ""

    def action_wrap(self) -> None:
        self.did += "wrap "


class Options:
    readonly = False


class TestApp(App):
    __test__ = False
    BINDINGS: ClassVar[list[BindingType]] = bindings("app")
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, keymap: Keymap | None = None, readonly: bool = False) -> None:
        super().__init__()
        self.look, self.keymap, self.options = default_look(), keymap, Options()
        self.options.readonly = readonly

    def compose(self) -> ComposeResult:
        yield Header("monitor")
        with Screenful(), Tab():
            yield Log()
        yield KeyBar()

    def on_mount(self) -> None:
        if self.keymap is not None:
            self.set_keymap(textual_keymap(self.keymap))

    def action_help(self) -> None:
        pass


def line(bar: Bar) -> str:
    return bar.render_line(0).text


def changed(**keys: tuple[str, ...]) -> Keymap:
    names = {name.replace("__", "."): value for name, value in keys.items()}
    return Keymap({**default_keys(), **names}, frozenset(names))


def test_keys_are_never_cut_and_the_last_one_stays():
    items = [Item("/", "filter"), Item("space", "mark"), Item("?", "help")]
    whole = sum(item.cells for item in items) + 4
    assert packed(items, whole) == items
    for cells in range(whole):
        kept = packed(items, cells)
        assert sum(item.cells for item in kept) + 2 * (len(kept) - 1) <= cells or not kept
        assert not kept or kept[-1] == items[-1]
    assert packed(items, 6) == items[-1:]


async def test_the_bar_shows_what_works_where_the_focus_is():
    app = TestApp()
    async with app.run_test(size=(80, 10)) as pilot:
        bar = app.query_one(KeyBar)
        app.set_focus(None)
        await pilot.pause()
        assert line(bar).split() == ["q", "quit", "?", "help"]
        app.query_one(Log).focus()
        await pilot.pause()
        shown = line(bar)
        assert "/ find  n/N match  F follow  w write  W wrap  S steer" in shown
        assert shown.rstrip().endswith("? help")
        assert "level" not in shown and "palette" not in shown  # nobody here does them
        assert shown.count("follow") == 1  # the log has the key, so the screen's is out of reach
        await pilot.press("W")
        assert app.query_one(Tab).did == "wrap "


async def test_the_bar_at_every_width_ends_in_whole_keys():
    app = TestApp()
    async with app.run_test(size=(80, 10)) as pilot:
        app.query_one(Log).focus()
        for width in (20, 33, 41, 80, 120):
            await pilot.resize_terminal(width, 10)
            await pilot.pause()
            shown = line(app.query_one(KeyBar))
            assert len(shown) == width
            for part in shown.split("  "):
                assert part.strip() in {
                    "",
                    "/ find",
                    "n/N match",
                    "F follow",
                    "w write",
                    "S steer",
                    "W wrap",
                    "q quit",
                    "? help",
                }


async def test_a_notice_leaves_with_its_time_and_the_status_comes_back():
    app = TestApp()
    async with app.run_test(size=(80, 10)) as pilot:
        bar = app.query_one(KeyBar)
        bar.status("stale 34 s", "watch")
        assert line(bar).rstrip().endswith("stale 34 s")
        bar.notice("copied \x1b[31m3 kB\nif your terminal allows it", "good")
        assert line(bar).rstrip().endswith("✓ copied 3 kB if your terminal allows it")
        bar.notice("x" * 300, "act")
        assert "? help" in line(bar) and len(line(bar)) == 80
        bar.clear_notice()
        assert line(bar).rstrip().endswith("stale 34 s")
        await pilot.pause()


async def test_only_changed_cells_are_repainted(monkeypatch):
    app = TestApp()
    async with app.run_test(size=(80, 10)) as pilot:
        bar = app.query_one(KeyBar)
        bar.status("updated 1 s ago")
        await pilot.pause()
        regions: list[Region] = []
        monkeypatch.setattr(bar, "refresh", lambda *given, **more: regions.extend(given) or bar)
        bar.render_line(0)
        bar.status("updated 2 s ago")
        assert [region.width for region in regions] == [1]
        bar.render_line(0)
        bar.status("updated 2 s ago")
        assert len(regions) == 1


async def test_the_users_keys_work_and_are_shown():
    app = TestApp(changed(logs__follow=("f", ","), logs__find=(), app__log=("ctrl+l",)))
    async with app.run_test(size=(80, 10)) as pilot:
        log = app.query_one(Log)
        log.focus()
        await pilot.press("f", "comma", "slash", "n", "N", "F", "L")
        assert log.did == "follow follow next previous "
        assert app.query_one(Screenful).did == "follow logs "
        assert "f follow" in line(app.query_one(KeyBar)) and "find" not in line(app.query_one(KeyBar))


async def test_readonly_offers_nothing_that_writes():
    app = TestApp(readonly=True)
    async with app.run_test(size=(80, 10)) as pilot:
        app.query_one(Log).focus()
        await pilot.pause()
        ids = {offer.action.id for offer in offered(app.screen)}
        assert "logs.find" in ids and not ids & {"logs.write", "monitor.steer"}


async def test_every_character_can_be_a_key():
    app = TestApp()
    async with app.run_test(size=(80, 10)) as pilot:
        log = app.query_one(Log)
        log.focus()
        for key in "/?:;[]{}+-=<>.,!@#$%^&*()_|~'\"`\\ 1aZä":
            app.set_keymap(textual_keymap(changed(logs__follow=(key_name(key),))))
            log.did = ""
            await pilot.press(key if key != " " else "space")
            assert log.did.split().count("follow") == 1, key


async def test_the_header_makes_room_for_the_run():
    app = TestApp()
    async with app.run_test(size=(120, 10)) as pilot:
        header = app.query_one(Header)
        assert line(header).startswith(" rltui │ 1 Runs  2 Config  3 Launch [4 Monitor] 5 Smoke")
        header.set_run("guess\x1b]0;x\x07-07", "running")
        assert line(header).rstrip().endswith("│ guess-07  ● RUNNING")
        for width in (120, 80, 60):
            await pilot.resize_terminal(width, 10)
            await pilot.pause()
            assert "[4 Monitor]" in line(header) and "guess-07  ● RUNNING" in line(header)
        header.set_run("a-very-long-name-of-a-run-that-nobody-would-type-by-hand-0123456789", "failed")
        assert "…" in line(header) and "FAILED" in line(header)


def test_the_help_is_last_and_what_every_screen_has_is_the_first_to_go():
    node = Widget()
    ids = ("runs.filter", "screen.zoom", "app.help", "app.palette", "app.quit", "screen.jump")
    offers = [Offer(BY_ID[id], BY_ID[id].keys, node) for id in ids]
    assert [item.label for item in items_of(offers)] == ["filter", "palette", "quit", "zoom", "help"]
