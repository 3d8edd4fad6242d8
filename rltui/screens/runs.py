"""Screen 1: the runs of a folder, and what each of them is doing."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from rich.segment import Segment
from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.timer import Timer

from rltui.launch.runs import is_address, job_at, server_name, split
from rltui.screens.messages import RunsChanged, RunsFailed, ServerRuns
from rltui.screens.own_app import own_app
from rltui.screens.runs_ages import RunList
from rltui.screens.runs_delete import Deleting
from rltui.screens.runs_detail import RunDetail
from rltui.screens.runs_line import head
from rltui.screens.runs_list import FOLDER, RunRows
from rltui.screens.runs_none import why_none
from rltui.screens.runs_shelf import Shelving
from rltui.sources.base import TERMINAL
from rltui.sources.find import NoSuchRun, is_run
from rltui.sources.servers import MOST
from rltui.watch import FolderWatcher, ServerWatcher, is_live
from rltui.widgets.bindings import bindings
from rltui.widgets.instead import Instead
from rltui.widgets.lines import Lines, focus_now, look_of
from rltui.widgets.pane import Pane
from rltui.widgets.prompt import Prompt
from rltui.widgets.virtual_list import VirtualList
from rltui.words import shortened

if TYPE_CHECKING:
    from rltui.sources.folder import RunRow

DETAIL_ROWS = 28  # from this height on the strip below the list shows
PAUSE_S = 0.15  # that the cursor rests before the strip follows: a held key sends the list alone


class ColumnNames(Lines, can_focus=False):
    """The names of the columns; where there is no run, what to do."""

    def on_mount(self) -> None:
        self.line_count = 1

    def line(self, y: int, width: int) -> list[Segment]:
        return head(width, look_of(self))


class RunsScreen(Deleting, Shelving):
    BINDINGS: ClassVar[list[BindingType]] = bindings("runs")
    DEFAULT_CSS = """
    RunsScreen ColumnNames { height: 1; }
    RunsScreen Instead { display: none; }
    RunsScreen.-none Instead { display: block; }
    RunsScreen.-none #runs, RunsScreen.-none ColumnNames { display: none; }
    RunsScreen #detail { height: 6; display: none; }
    RunsScreen.-detail #detail { display: block; }
    RunsScreen.-none #detail { display: none; }
    """

    def __init__(self) -> None:
        super().__init__(name="runs")
        self.rows = RunRows()
        self._folder = Path()
        self._scanned = (0, 1)
        self._filter = ""
        self._moved = False  # whether the cursor was
        self._pause: Timer | None = None
        self.add_class("-none", update=False)

    def body(self) -> ComposeResult:
        # Before there are widgets: with them, each class costs a style of every one of them anew.
        self.set_class(self.app.size.height >= DETAIL_ROWS, "-detail", update=False)
        with Pane(id="list"):
            yield ColumnNames()
            yield RunList(self.rows, id="runs")
            yield Instead()
            yield Prompt("/", placeholder="words in name, state, label, host or tags", id="filter")
            yield Prompt(
                "path", placeholder="of a run or of a folder of runs; http://HOST:PORT or ssh://USER@HOST", id="attach"
            )
        with Pane(title="Run", id="detail"):
            yield RunDetail()

    def on_mount(self) -> None:
        shelf = self.rows.shelf = own_app(self).shelf
        if shelf.fault:
            self.say(shelf.fault, "watch")
        self.rows.arrange()
        self._update()

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.height >= DETAIL_ROWS, "-detail")

    # The folder

    def show_folder(self, folder: Path) -> None:
        """List the runs of another folder from now on."""
        self._folder, self._scanned = folder, (0, 1)
        self.rows.clear(FOLDER)
        if self.is_mounted:
            self.query_one("#runs", VirtualList).update_rows()
            self._update()

    def watcher(self, folder: Path, period_s: float) -> FolderWatcher:
        """What keeps this screen up to date."""
        return FolderWatcher(
            folder,
            found=lambda *found: self.post_message(RunsChanged(folder, *found)),
            failed=lambda why: self.post_message(RunsFailed(folder, why)),
            period_s=period_s,
        )

    def server_watcher(self, name: str) -> ServerWatcher:
        return ServerWatcher(name, found=lambda *found: self.post_message(ServerRuns(*found)))

    def forget_server(self, name: str) -> None:
        self.rows.clear(name)
        if self.is_mounted:
            self.query_one("#runs", VirtualList).update_rows()
            self._update()

    @on(ServerRuns)
    def _server_runs(self, event: ServerRuns) -> None:
        if event.server in own_app(self).servers:  # it was not forgotten meanwhile
            self._take(event.server, event.rows, self.rows.missing(event.server, event.rows))

    @property
    def _partly(self) -> bool:
        """Whether some runs of the folder were read, and not all."""
        scanned, total = self._scanned
        return scanned < total and (scanned > 0 or own_app(self).reading_ended)

    @on(RunsChanged)
    def _runs_changed(self, event: RunsChanged) -> None:
        if event.folder != self._folder:  # another one was chosen meanwhile
            return
        partly = self._partly
        self._scanned = (event.scanned, event.total)
        if self._partly != partly:
            self.refresh_bindings()
        self._take(FOLDER, event.rows, event.gone)

    def _take(self, origin: str, rows: list[RunRow], gone: list[str]) -> None:
        """Show what has come from the folder or from a server."""
        if not self.query(RunDetail):  # the interface is being left
            return
        self.rows.now = time.time()
        runs = self.query_one("#runs", VirtualList)
        for row in rows:
            before = self.rows.of(row.path)
            if before is not None and is_live(before.state) and not is_live(row.state):
                own_app(self).ended(row.path, row.state, row.name)
        same = self.rows.update(rows, gone, origin)
        if same is None and not self._moved:
            runs.set_rows(self.rows)  # the newest run, until the person has chosen one
        elif same is None:
            runs.update_rows()
        else:
            for i in same:
                runs.refresh_row(i)
        self._update()

    @on(RunsFailed)
    def _failed(self, event: RunsFailed) -> None:
        if event.folder != self._folder:
            return
        self.rows.clear(FOLDER)
        self.query_one("#runs", VirtualList).update_rows()
        if len(self.rows):
            self.say(event.why, "act")
            self._update()
            return
        self.add_class("-none")
        self.query_one("#list", Pane).set_info("")
        self.query_one(Instead).say(
            (event.why, "act"), ("It is tried again every few seconds. a: another folder", "dim")
        )

    def _update(self) -> None:
        """Titles, counts, the strip below, and the words where there is nothing."""
        shown, known = len(self.rows), self.rows.known
        scanned, total = self._scanned
        pane = self.query_one("#list", Pane)
        servers = len(own_app(self).servers)
        beside = f" and {servers} server{'s' * (servers != 1)}" if servers else ""
        pane.set_title(f"Runs in {shortened(self._folder)}{beside}")
        info = f"{known} run{'' if known == 1 else 's'}"
        if self._filter:
            info = f"showing {shown} of {known}"
        if ended := scanned < total and own_app(self).reading_ended:
            info = f"read {scanned} of {total}"
        elif scanned < total:
            info = f"scanned {scanned} of {total}" if scanned else "reading the folder"
        elif self.rows.live:
            info += f", {self.rows.live} live"
        if archived := self.rows.archived:
            info += f", {archived} archived"
        pane.set_info(info)
        cut = any(self.rows.count(name) >= MOST for name in own_app(self).servers)
        pane.set_subtitle(f"by {self.rows.sort}{f', of a server its newest {MOST}' if cut else ''}")
        self.set_class(not shown, "-none")
        if not shown:
            opened, reading = own_app(self).opened, scanned < total
            of = {"filter": self._filter, "known": known, "reading": reading, "ended": ended}
            self.query_one(Instead).say(*why_none(self._folder, open_run=opened.name if opened else None, **of))
        self._show_detail()

    # The cursor

    @property
    def where(self) -> str | None:
        """Folder or address of the run under the cursor; the line of a server that gives no answer is no run."""
        at = self.query_one("#runs", VirtualList).cursor
        return self.rows.row(at).path if at < len(self.rows) and not self._server_here() else None

    def _server_here(self) -> str | None:
        """The server whose own line is under the cursor."""
        server = self._origin_here()
        at = self.query_one("#runs", VirtualList).cursor
        return server if server and self.rows.row(at).path == server else None

    def _origin_here(self) -> str:
        """The server of the run under the cursor; "" of one of the folder."""
        at = self.query_one("#runs", VirtualList).cursor
        return self.rows.origin(at) if at < len(self.rows) else FOLDER

    @on(VirtualList.Highlighted, "#runs")
    def _highlighted(self, event: VirtualList.Highlighted) -> None:
        self._moved |= event.index > 0
        if self._pause is not None:
            self._pause.stop()
        self._pause = self.set_timer(PAUSE_S, self._show_detail)

    @on(VirtualList.Selected, "#runs")
    def _selected(self) -> None:
        if self.where is not None:
            own_app(self).open_run(self.where)
        elif (server := self._server_here()) is not None:
            own_app(self).look_at_server(server)
            self.say(f"asking {server}")

    def _show_detail(self) -> None:
        at = self.query_one("#runs", VirtualList).cursor
        row = self.rows.row(at) if at < len(self.rows) else None
        self.query_one(RunDetail).show(row)

    # Actions

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """What was read has no end to be awaited."""
        return (action != "reading" or self._partly) and super().check_action(action, parameters)

    def action_reading(self) -> None:
        own_app(self).turn_reading()
        self._update()

    def action_filter(self) -> None:
        self.query_one("#filter", Prompt).open(self._filter)

    @on(Prompt.Changed, "#filter")
    def _filter_typed(self, event: Prompt.Changed) -> None:
        self._keep(event.value)

    @on(Prompt.Submitted, "#filter")
    def _filter_taken(self, event: Prompt.Submitted) -> None:
        self._keep(event.value)
        if not event.value.strip():
            event.prompt.close()
        focus_now(self.query_one("#runs"))

    @on(Prompt.Cancelled, "#filter")
    def _filter_left(self, event: Prompt.Cancelled) -> None:
        if event.prompt.before:
            event.prompt.open(event.prompt.before)  # what is in use shows
        self._keep(event.prompt.before)
        focus_now(self.query_one("#runs"))

    def _keep(self, text: str) -> None:
        self._filter = text.strip()
        self.rows.filter(text)
        self.query_one("#runs", VirtualList).update_rows()
        self._update()

    def action_back(self) -> None:
        prompt = self.query_one("#filter", Prompt)
        prompt.close()
        self._keep("")

    def action_attach(self) -> None:
        self.query_one("#attach", Prompt).open()

    @on(Prompt.Submitted, "#attach")
    def _attach_path(self, event: Prompt.Submitted) -> None:
        if is_address(event.value.strip()):
            self._attach_address(event)
            return
        path = Path(event.value.strip()).expanduser()
        if not event.value.strip() or not path.is_dir():
            event.prompt.set_note(f"no folder {path}" if event.value.strip() else "a path, please", "watch")
            return
        self._leave_attach(event)
        if is_run(path):
            own_app(self).open_run(str(path))
        else:
            own_app(self).watch_folder(path)

    def _attach_address(self, event: Prompt.Submitted) -> None:
        """A job opens, and the jobs of its server are listed from now on."""
        address = event.value.strip().rstrip("/")
        try:
            server, job_id = split(address)
        except NoSuchRun:
            server, job_id = address, ""
        try:
            name = server_name(server)
        except NoSuchRun as error:
            event.prompt.set_note("no address; such as ssh://USER@HOST", "watch")
            self.say(str(error), "watch")
            return
        self._leave_attach(event)
        own_app(self).add_server(name)
        if job_id:
            own_app(self).open_run(job_at(name, job_id))

    def action_forget(self) -> None:
        """List the jobs of this server no more."""
        if server := self._origin_here():
            own_app(self).forget_server(server)
            self.say(f"the jobs of {server} are listed no more; a: lists them again")
        else:
            self.say("this run is one of the folder; x forgets a server")

    @on(Prompt.Cancelled, "#attach")
    def _leave_attach(self, event: Prompt.Changed) -> None:
        event.prompt.close()
        focus_now(self.query_one("#runs"))

    def action_delete(self) -> None:
        at = self.query_one("#runs", VirtualList).cursor
        if at >= len(self.rows) or self._origin_here():
            self.say("only a run of the folder can be deleted")
        elif is_live((row := self.rows.row(at)).state):
            self.say(f"{row.name} is {row.state}: S stops it first", "watch")
        else:
            self.ask_to_delete(row)

    def gone(self, path: str) -> None:
        self._take(FOLDER, [], [path])

    def here(self) -> RunRow | None:
        at = self.query_one("#runs", VirtualList).cursor
        return self.rows.row(at) if at < len(self.rows) and not self._server_here() else None

    def shelved(self) -> None:
        self.rows.arrange()
        self.query_one("#runs", VirtualList).update_rows()
        self._update()

    def action_steer(self) -> None:
        from rltui.screens.steer import ended

        row = self.here()
        if row is not None and row.state in TERMINAL:
            self.say(ended(row.name, row.state), "watch")
        elif row is not None:
            own_app(self).steer_run(row.path)

    def action_mark(self) -> None:
        runs = self.query_one("#runs", VirtualList)
        if runs.cursor < len(self.rows):
            self.rows.toggle_mark(runs.cursor)
            runs.refresh_row(runs.cursor)
            runs.action_down()
            count = len(self.rows.marks)
            if count:
                self.say(
                    f"{count} runs are marked; 6: compare them" if count > 1 else "mark another one to compare them"
                )

    def action_sort(self) -> None:
        self.rows.sort_next()
        self.query_one("#runs", VirtualList).update_rows()
        self._update()

    def action_new(self) -> None:
        own_app(self).copy_config()

    def action_copy_config(self) -> None:
        if self.where is not None:
            own_app(self).copy_config(self.where)

    def action_copy(self) -> None:
        if self.where is not None:
            own_app(self).copy(self.where)
