"""The tab of episodes: a list, and beside it what was said in the one under the cursor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from rich.segment import Segment
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.timer import Timer

from rltui.model.episode_list import SORTS, nearest_iteration
from rltui.model.episode_query import FilterError
from rltui.screens.monitor.comparing import Comparing
from rltui.screens.monitor.episode_line import head
from rltui.screens.monitor.episodes import Episodes
from rltui.screens.monitor.transcript_pane import TranscriptPane
from rltui.screens.monitor.xray_bar import XrayBar, band_of
from rltui.screens.own_app import own_app
from rltui.widgets.bindings import bindings
from rltui.widgets.finding import FindPane
from rltui.widgets.instead import Instead
from rltui.widgets.lines import Lines, focus_now, look_of
from rltui.widgets.pane import Pane
from rltui.widgets.prompt import Prompt
from rltui.widgets.transcript import Transcript
from rltui.widgets.virtual_list import VirtualList

if TYPE_CHECKING:
    from rltui.model.run import RunModel
    from rltui.model.xray import Xray
    from rltui.opened import OpenRun


class Jump(NamedTuple):
    """To the episodes of an iteration, of one split or both."""

    iteration: int
    split: str | None = None

    @property
    def text(self) -> str:
        """The filter that keeps them."""
        return f"iteration = {self.iteration}" + (f" and split = {self.split}" if self.split else "")


PAUSE_S = 0.15  # that the cursor rests before an episode is read: a held key sends no transcripts


class EpisodeHead(Lines, can_focus=False):
    """The names of the columns."""

    def on_mount(self) -> None:
        self.line_count = 1

    def line(self, y: int, width: int) -> list[Segment]:
        return head(width, look_of(self))


class EpisodeRead(Message):
    """What was recorded of episode n; None: its text is gone."""

    def __init__(
        self, n: int, episode: dict[str, Any] | None, updates: dict[str, Any], xray: Xray | None, band: Any
    ) -> None:
        super().__init__()
        self.n, self.episode, self.updates, self.xray, self.band = n, episode, updates, xray, band


class Nearest(Message):
    """Of the iterations with recorded episodes the one nearest to that of a jump."""

    def __init__(self, jump: Jump, iteration: int) -> None:
        super().__init__()
        self.jump, self.iteration = jump, iteration


class Scanned(Message):
    """The search behind a filter or a sort has come further."""


class Rollouts(Comparing):
    tab = "rollouts"
    BINDINGS: ClassVar[list[BindingType]] = bindings("rollouts")
    DEFAULT_CSS = """
    Rollouts > Horizontal { height: 1fr; }
    Rollouts #left { width: 4fr; min-width: 46; }
    Rollouts #transcript-pane { width: 5fr; }
    Rollouts EpisodeHead { height: 1; }
    Rollouts Instead { display: none; height: 3; }
    Rollouts Pane.-none Instead { display: block; }
    """

    def __init__(self, opened: OpenRun) -> None:
        super().__init__(opened)
        self._text, self._sort = "", next(iter(SORTS))
        self._jump: Jump | None = None  # whose episodes are still looked for
        self._gone_to = ""  # the filter that a jump has set: escape goes back from there
        self._follow = False
        self._pause: Timer | None = None
        self._scanning = False
        self._searching = False  # whether what was chosen last is still looked for
        self._wanted: int | None = None  # the episode under the cursor

    def compose(self) -> ComposeResult:
        with Horizontal():
            with Vertical(id="left"):
                with Pane(title="Episodes", id="episodes-pane", classes="-front"):
                    yield EpisodeHead()
                    yield Instead()
                    yield VirtualList(id="episodes")
                    yield Prompt("/", placeholder="reward > 0.5 and stop != completed", id="episode-filter")
                yield from self.compose_left()
            yield TranscriptPane(Transcript(id="transcript"), title="Episode", id="transcript-pane")
            yield from self.compose_right()

    @property
    def _list(self) -> VirtualList:
        return self.query_one("#episodes", VirtualList)

    # What changed

    def update(self, model: RunModel, what: frozenset[str]) -> None:
        if self._rows is None:
            self._rows = Episodes(model)
            self._choose(self._text, self._sort)
        elif "episodes" in what or "metrics" in what:
            self._scan()
            self._list.update_rows()
            if self._follow:
                self._list.cursor = 0
        self._describe()

    @on(Scanned)
    def _scanned(self) -> None:
        """The first rows stay in view while others take their places, unless the person has gone on by then."""
        searched = self._searching
        at_first = searched and self._list.cursor == 0
        self._searching = self._rows is not None and not self._rows.done
        if searched and not self._searching:
            self.refresh_bindings()
        self._list.update_rows()
        if at_first:
            self._list.cursor = 0
        if not self._searching and self._jump is not None:
            jump, self._jump = self._jump, None
            if not len(self._list.rows):
                self._look_near(jump)
        self._describe()

    def _look_near(self, jump: Jump) -> None:
        """Nothing was recorded of an iteration: find the nearest of which something was."""
        rows = self._rows

        def job() -> None:
            if rows is not None and rows is self._rows:
                found = nearest_iteration(rows.rows, jump.iteration, jump.split)
                if found is not None:
                    self.post_message(Nearest(jump, found))

        self._opened.in_thread(job)

    @on(Nearest)
    def _near(self, event: Nearest) -> None:
        if self._text == event.jump.text:  # the person has not gone on
            self._show_jump(event.jump._replace(iteration=event.iteration))
            self._jump = None
            own = "" if event.jump.split is None else f" {event.jump.split}"
            here, near = event.jump.iteration, event.iteration
            own_app(self).say(f"no{own} episode of iteration {here} was recorded: this is the nearest, {near}")

    def _scan(self) -> None:
        """Search on in the watcher's thread, a moment at a time: what else is to be read has its turn between."""
        rows = self._rows

        def job() -> None:
            if rows is None or rows is not self._rows:
                return
            self._scanning = False
            if rows.scan():
                self._scan()
            self.post_message(Scanned())

        if not self._scanning:
            self._scanning = True
            self._opened.in_thread(job)

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
        self._searching, self._jump = True, None
        if prompt.is_open:
            prompt.set_note("")
        self._list.set_rows(self._rows)
        self._scan()
        self._describe()
        self.refresh_bindings()

    def _describe(self) -> None:
        if self._rows is None:
            return
        pane = self.query_one("#episodes-pane", Pane)
        pane.set_title(f"Episodes  {self._rows.text}" if self._rows.text else "Episodes")
        pane.set_info(self._rows.info() + (", following" if self._follow else ""))
        pane.set_subtitle(self._rows.sort)
        self.show_bins()
        self._say_nothing(pane, self._rows)

    def _say_nothing(self, pane: Pane, rows: Episodes) -> None:
        """Where no episode is shown: why, and in the other pane that there is none to read."""
        nothing = pane.query_one(Instead)
        done, found = rows.done, len(rows)  # in this order: the search goes on in its thread meanwhile
        pane.set_class(not found, "-none")
        if found:
            return
        if not rows.total:
            nothing.say(("No episode yet", "dim"))
        elif rows.text and done:
            nothing.say((f"No episode matches {rows.text}", "text"), ("/ changes the filter, esc clears it", "dim"))
        else:
            nothing.say(("C goes on with the search" if rows.ended else "Looking through the episodes", "dim"))
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
                values = (source.document("resolved.json") or {}).get("values")
                band = band_of(values if isinstance(values, dict) else {})
                self.post_message(EpisodeRead(n, *self.read(source, n), band))

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
        transcript.show(event.episode, event.updates, event.xray)
        bar = self.query_one(XrayBar)
        bar.band = event.band
        bar.follow(transcript)
        pane.set_title(f"Episode {event.n}")
        pane.set_info(f"iteration {event.episode.get('iteration')}, seed {event.episode.get('seed')}")

    @on(VirtualList.Selected, "#episodes")
    def _selected(self) -> None:
        self.to_front(self.query_one("#transcript-pane", FindPane))
        focus_now(self.query_one(Transcript))

    # Actions

    def go(self, place: dict[str, Any]) -> None:
        """`iteration`, `split`: its episodes only; `filter`: those that match."""
        if place.get("iteration") is not None:
            self._show_jump(Jump(place["iteration"], place.get("split")))
        elif text := place.get("filter"):
            self.keep(text)
            self._gone_to = text
        self.leave_group()
        self.to_front(self.query_one("#episodes-pane", Pane))
        focus_now(self._list)

    def _show_jump(self, jump: Jump) -> None:
        self.keep(jump.text)
        self._gone_to, self._jump = jump.text, jump

    def keep(self, text: str) -> None:
        """Filter by `text`, newest first."""
        self.query_one("#episode-filter", Prompt).value = text
        self._gone_to = ""
        self._choose(text, "newest")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """What was found has no end to be awaited."""
        if action == "search":
            return self._rows is not None and not self._rows.done and not self.has_class("-group")
        return super().check_action(action, parameters)

    def action_search(self) -> None:
        """End the search, or go on with it."""
        if self._rows is not None:
            self._rows.ended = not self._rows.ended
            self._scan()
            self._describe()

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
    def _left(self, event: Prompt.Cancelled) -> None:
        self._choose(event.prompt.before, self._sort)
        focus_now(self._list)

    def action_sort(self) -> None:
        from rltui.screens.choice import Choice, ChoiceScreen

        choices = [Choice(name, name) for name in SORTS]
        screen = ChoiceScreen("Sort episodes by", choices, cursor=list(SORTS).index(self._sort))
        self.app.push_screen(screen, lambda sort: self._choose(self._text, sort) if sort is not None else None)

    def action_back(self) -> None:
        """From the diff to the group, from there to the list; from the transcript to the list; from there the filter
        goes; then back to where the person came from."""
        if self.leave_diff():
            return
        if self.has_class("-group"):
            self.leave_group()
            self.to_front(self.query_one("#episodes-pane", Pane))
            focus_now(self._list)
        elif not self.query_one("#episodes-pane").has_pseudo_class("focus-within"):
            self.to_front(self.query_one("#episodes-pane", Pane))
            focus_now(self._list)
        elif self._text and self._text != self._gone_to:
            self._choose("", self._sort)
        else:
            self.call_later(self.screen.run_action, "screen.back")

    def action_same_seed(self) -> None:
        row = self.row_here()
        if row.get("seed") is not None:
            self.leave_group()
            self.keep(f"seed = {row['seed']} and split = {row.get('split') or 'train'}")
            self.to_front(self.query_one("#episodes-pane", Pane))
            focus_now(self._list)

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
