"""The tab of episodes: a list, and beside it what was said in the one under the cursor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from rich.segment import Segment
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.message import Message
from textual.timer import Timer

from rltui.screens.monitor.episode_filter import FilterError
from rltui.screens.monitor.episode_line import head
from rltui.screens.monitor.episodes import SORTS, Episodes
from rltui.screens.monitor.tab import Tab
from rltui.screens.monitor.writing import write_text
from rltui.screens.own_app import own_app
from rltui.widgets.bindings import allowed, bindings
from rltui.widgets.finding import FindPane
from rltui.widgets.instead import Instead
from rltui.widgets.lines import Lines, focus_now, look_of
from rltui.widgets.pane import Pane
from rltui.widgets.prompt import Prompt
from rltui.widgets.transcript import Transcript
from rltui.widgets.virtual_list import VirtualList

if TYPE_CHECKING:
    from rltui.model.run import RunModel
    from rltui.opened import OpenRun


PAUSE_S = 0.15  # that the cursor rests before an episode is read: a held key sends no transcripts


class EpisodeHead(Lines, can_focus=False):
    """The names of the columns."""

    def on_mount(self) -> None:
        self.line_count = 1

    def line(self, y: int, width: int) -> list[Segment]:
        return head(width, look_of(self))


class EpisodeRead(Message):
    """What was recorded of episode n; None: its text is gone."""

    def __init__(self, n: int, episode: dict[str, Any] | None, updates: dict[str, Any]) -> None:
        super().__init__()
        self.n, self.episode, self.updates = n, episode, updates


class Scanned(Message):
    """The search behind a filter or a sort has come further."""


class TranscriptPane(FindPane):
    """The transcript, and the key that writes it to a file."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("transcript")
    stem = ""  # of the file's name; "" while there is no episode

    def compose(self) -> ComposeResult:
        """What there is to say without an episode, then what every such pane has."""
        yield Instead()
        yield from super().compose()

    def show_none(self, why: str) -> None:
        """No episode, for a reason that stands in its place; "" where the next one comes at once."""
        self.stem = ""
        self.query_one(Transcript).clear()
        self.set_title("Episode")
        self.set_info("")
        self.query_one(Instead).say((why, "dim"))
        self.add_class("-none")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """What writes is refused under --readonly."""
        return allowed(self, action)

    def action_write(self) -> None:
        model = self.query_one(Transcript).model
        if model is not None and self.stem:
            import json

            write_text(self, self.stem, json.dumps(model.episode, ensure_ascii=False, indent=1) + "\n")


class Rollouts(Tab):
    tab = "rollouts"
    BINDINGS: ClassVar[list[BindingType]] = bindings("rollouts")
    DEFAULT_CSS = """
    Rollouts > Horizontal { height: 1fr; }
    Rollouts #episodes-pane { width: 4fr; min-width: 46; }
    Rollouts #transcript-pane { width: 5fr; }
    Rollouts EpisodeHead { height: 1; }
    Rollouts Instead { display: none; height: 3; }
    Rollouts Pane.-none Instead { display: block; }
    """

    def __init__(self, opened: OpenRun) -> None:
        super().__init__()
        self._opened = opened
        self._rows: Episodes | None = None
        self._text, self._sort = "", next(iter(SORTS))
        self._follow = False
        self._pause: Timer | None = None
        self._wanted: int | None = None  # the episode under the cursor

    def compose(self) -> ComposeResult:
        with Horizontal():
            with Pane(title="Episodes", id="episodes-pane", classes="-front"):
                yield EpisodeHead()
                yield Instead()
                yield VirtualList(id="episodes")
                yield Prompt("/", placeholder="reward > 0.5   iteration = 12   stop != completed", id="episode-filter")
            yield TranscriptPane(Transcript(id="transcript"), title="Episode", id="transcript-pane")

    @property
    def _list(self) -> VirtualList:
        return self.query_one("#episodes", VirtualList)

    def start(self) -> None:
        focus_now(self._list)

    # What changed

    def update(self, model: RunModel, what: frozenset[str]) -> None:
        if self._rows is None:
            self._rows = Episodes(model)
            self._choose(self._text, self._sort)
        elif "episodes" in what:
            self._scan()
            self._list.update_rows()
            if self._follow:
                self._list.cursor = 0
        self._describe()

    @on(Scanned)
    def _scanned(self) -> None:
        self._list.update_rows()
        self._describe()

    def _scan(self) -> None:
        rows = self._rows
        if rows is not None and rows.view is not None:
            self._opened.in_thread(lambda: rows.scan(lambda: self.post_message(Scanned())))

    def _choose(self, text: str, sort: str) -> None:
        """Filter and sort; a mistake in the filter is named, and the last good one stays."""
        if self._rows is None:
            return
        prompt = self.query_one("#episode-filter", Prompt)
        try:
            self._rows.choose(text, sort)
        except FilterError as error:
            prompt.set_note(f"column {error.column + 1}: {error}", "watch")
            return
        self._text, self._sort = text, sort
        if prompt.is_open:
            prompt.set_note("")
        self._list.set_rows(self._rows)
        self._scan()
        self._describe()

    def _describe(self) -> None:
        if self._rows is None:
            return
        pane = self.query_one("#episodes-pane", Pane)
        pane.set_title(f"Episodes  {self._rows.text}" if self._rows.text else "Episodes")
        pane.set_info(self._rows.info() + (", following" if self._follow else ""))
        pane.set_subtitle(self._rows.sort)
        self._say_nothing(pane, self._rows)

    def _say_nothing(self, pane: Pane, rows: Episodes) -> None:
        """Where no episode is shown: why, and in the other pane that there is none to read."""
        nothing = pane.query_one(Instead)
        pane.set_class(not len(rows), "-none")
        if len(rows):
            return
        if not rows.total:
            nothing.say(("No episode yet", "dim"))
        elif rows.text and rows.done:
            nothing.say((f"No episode matches {rows.text}", "text"), ("/ changes the filter, esc clears it", "dim"))
        else:
            nothing.say(("Looking through the episodes", "dim"))
            return  # the transcript stays: its episode may be found again
        self._wanted = None  # so that the next one under the cursor is read, whichever it is
        self.query_one(TranscriptPane).show_none("No episode is under the cursor")

    # The episode

    @on(VirtualList.Highlighted, "#episodes")
    def _highlighted(self, event: VirtualList.Highlighted) -> None:
        self._follow &= event.index == 0
        if self._pause is not None:
            self._pause.stop()
        self._pause = self.set_timer(PAUSE_S, self._read)

    def _read(self) -> None:
        """Read the episode under the cursor, unless the cursor has gone on by then."""
        at = self._list.cursor
        if self._rows is None or at >= len(self._rows):
            return
        n, model = self._rows.key(at), self._opened.model
        if n is None or n == self._wanted or model is None:
            return
        self._wanted = n
        source = model.source

        def job() -> None:
            if n == self._wanted:
                self.post_message(EpisodeRead(n, source.episode(n), source.updates(n)))

        self._opened.in_thread(job)

    @on(EpisodeRead)
    def _episode_read(self, event: EpisodeRead) -> None:
        if event.n != self._wanted:
            return
        transcript, pane = self.query_one(Transcript), self.query_one(TranscriptPane)
        pane.remove_class("-none")
        pane.stem = f"{self._opened.name}-episode-{event.n}"
        if event.episode is None:
            pane.show_none(f"The text of episode {event.n} is gone; its numbers stay in the list")
            pane.set_title(f"Episode {event.n}: its text is gone")
            return
        transcript.show(event.episode, event.updates)
        pane.set_title(f"Episode {event.n}")
        pane.set_info(f"iteration {event.episode.get('iteration')}, seed {event.episode.get('seed')}")

    @on(VirtualList.Selected, "#episodes")
    def _selected(self) -> None:
        self.to_front(self.query_one("#transcript-pane", FindPane))
        focus_now(self.query_one(Transcript))

    # Actions

    def go(self, place: dict[str, Any]) -> None:
        """`iteration`: its episodes only."""
        if place.get("iteration") is not None:
            text = f"iteration = {place['iteration']}"
            self.query_one("#episode-filter", Prompt).value = text
            self._choose(text, "newest")
        self.to_front(self.query_one("#episodes-pane", Pane))
        focus_now(self._list)

    def action_filter(self) -> None:
        self.query_one("#episode-filter", Prompt).open(self._text)

    @on(Prompt.Changed, "#episode-filter")
    def _typed(self, event: Prompt.Changed) -> None:
        self._choose(event.value, self._sort)

    @on(Prompt.Submitted, "#episode-filter")
    def _taken(self, event: Prompt.Submitted) -> None:
        event.prompt.close()
        focus_now(self._list)

    @on(Prompt.Cancelled, "#episode-filter")
    def _left(self) -> None:
        self._choose("", self._sort)
        focus_now(self._list)

    def action_sort(self) -> None:
        names = list(SORTS)
        self._choose(self._text, names[(names.index(self._sort) + 1) % len(names)])

    def action_back(self) -> None:
        """From the transcript to the list; from there the filter goes; then out of the monitor."""
        if self.query_one("#transcript-pane").has_pseudo_class("focus-within"):
            self.to_front(self.query_one("#episodes-pane", Pane))
            focus_now(self._list)
        elif self._text:
            self._choose("", self._sort)
        else:
            own_app(self).action_runs()

    def action_previous_episode(self) -> None:
        self._list.action_up()

    def action_next_episode(self) -> None:
        self._list.action_down()

    def follow(self) -> None:
        """Keep the newest under the cursor, or let go of it."""
        self._follow = not self._follow
        if self._follow:
            if self._sort != "newest":
                self._choose(self._text, "newest")
            self._list.cursor = 0
        self._describe()

    # Memory

    def place(self) -> dict[str, Any]:
        return {"filter": self._text, "sort": self._sort, "follow": self._follow}

    def restore(self, place: dict[str, Any]) -> None:
        text, sort = place.get("filter"), place.get("sort")
        self._text = text if isinstance(text, str) else ""
        self._sort = sort if isinstance(sort, str) and sort in SORTS else self._sort
        self._follow = place.get("follow") is True
