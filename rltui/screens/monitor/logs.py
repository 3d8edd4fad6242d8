"""The tab of logs: all processes of the run merged, or one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.message import Message

from rltui.model.log_feed import LogFeed
from rltui.model.log_lines import Level
from rltui.model.moment import moment
from rltui.screens.monitor.tab import Tab
from rltui.screens.monitor.writing import write_text
from rltui.screens.own_app import own_app
from rltui.text import clean
from rltui.text_lines import printable
from rltui.widgets.bindings import bindings
from rltui.widgets.finding import FindPane
from rltui.widgets.lines import focus_now
from rltui.widgets.log_view import LogView

if TYPE_CHECKING:
    from rltui.model.run import RunModel
    from rltui.opened import OpenRun


class LogLines(Message):
    """New lines of a feed, by log."""

    def __init__(self, feed: LogFeed, found: list[tuple[str, list[str]]]) -> None:
        super().__init__()
        self.feed, self.found = feed, found


class Logs(Tab):
    tab = "logs"
    BINDINGS: ClassVar[list[BindingType]] = bindings("logs")

    def __init__(self, opened: OpenRun) -> None:
        super().__init__()
        self._opened = opened
        self._feed: LogFeed | None = None
        self._only: str | None = None
        self._level = Level.DEBUG
        self._wrap = False
        self._busy: LogFeed | None = None  # a read of it is on its way
        self._due = True  # whether a run that has ended may have lines that were not read

    def compose(self) -> ComposeResult:
        yield FindPane(LogView(wrap=self._wrap, id="log"), title="Logs", classes="-front")

    @property
    def view(self) -> LogView:
        return self.query_one(LogView)

    def start(self) -> None:
        focus_now(self.view)

    def on_mount(self) -> None:
        if self._level > Level.DEBUG:
            self.view.show_level(self._level)
        self.set_interval(self._opened.period_s, self._more)

    def on_show(self) -> None:
        """Who ends a run may write some more."""
        self._due = True

    def update(self, model: RunModel, what: frozenset[str]) -> None:
        if self._feed is None or "logs" in what:  # the time has moved
            self._feed = LogFeed(model.source, events=True)
            level = self.view.store.level_shown
            self.view.clear()
            self.view.show_level(level)
            self._read()

    def _more(self) -> None:
        """A log grows without any other sign, also while another tab shows. That of a run which has ended is read until
        a read that began after its end finds nothing."""
        if self._opened.live or self._due:
            self._read()

    def _read(self) -> None:
        feed = self._feed
        if feed is None or self._busy is feed:
            return
        self._busy = feed

        def job() -> None:
            more, some = True, self._opened.live
            try:
                while more and feed is self._feed:
                    found, more = feed.read()
                    if found:
                        some = True
                        self.post_message(LogLines(feed, found))
                if feed is self._feed:
                    self._due = some
            finally:
                if self._busy is feed:
                    self._busy = None

        self._opened.in_thread(job)

    @on(LogLines)
    def _came(self, event: LogLines) -> None:
        if event.feed is not self._feed:  # of a time that it has left
            return
        for name, lines in event.found:
            self.view.append(lines, name)
        if self._only is not None and self._only in self.view.store.names:
            only, self._only = self._only, None
            self._show(only)

    @on(LogView.Changed)
    def _changed(self) -> None:
        self.query_one(FindPane).set_info(self.view.status)
        self.post_message(self.Unread(self.view.unread))

    # Actions

    def action_time(self) -> None:
        """Ask for a time, and go to the first line from then on."""
        from rltui.screens.ask import AskScreen

        ask = AskScreen("Go to a time", "time", "HH:MM, HH:MM:SS, a date with one, or step N", self._moment)
        self.app.push_screen(ask, self._jump)

    def _moment(self, text: str) -> float:
        """Epoch seconds. ValueError: it names no time of this run."""
        return moment(text, self._opened.model)

    def _jump(self, at: float | None) -> None:
        if at is not None and not self.view.go_to_time(at):
            own_app(self).say("no line of the log is as late")

    async def action_file(self) -> None:
        from rltui.screens.choice import Choice, ChoiceScreen

        names = self.view.store.names
        choices = [Choice("", "all", "what was there by time, then as it comes")]
        choices += [Choice(name, clean(name, 40)) for name in names]
        await self.app.push_screen(ChoiceScreen("Which log", choices), self._chosen)

    def _chosen(self, name: str | None) -> None:
        if name is not None:
            self._show(name or None)

    def _show(self, name: str | None) -> None:
        self._only = name
        self.view.show_source(name)
        self.query_one(FindPane).set_title(f"Logs  {clean(name, 40)}" if name else "Logs")

    def action_write(self) -> None:
        store = self.view.store
        text = "\n".join(printable(store.text(i)) for i in range(len(store)))
        write_text(self, f"{self._opened.name}-{clean(self._only or 'logs', 40)}", text + "\n")

    def go(self, place: dict[str, Any]) -> None:
        self.start()

    def follow(self) -> None:
        self.view.action_follow()

    # Memory

    def place(self) -> dict[str, Any]:
        view = self.view
        return {"level": int(view.store.level_shown), "wrap": view.wrap, "only": self._only}

    def restore(self, place: dict[str, Any]) -> None:
        level, only = place.get("level"), place.get("only")
        self._wrap = place.get("wrap") is True
        self._only = only if isinstance(only, str) else None
        if isinstance(level, int) and level in list(Level):
            self._level = Level(level)
