"""What the Compare screen shows: which runs it takes, and what each part says of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

from textual import on
from textual.timer import Timer

from rltui.launch.runs import find, is_address
from rltui.model.find import Finder, FindError
from rltui.screens.compare.curves import Curves
from rltui.screens.compare.episodes import Side, Sides
from rltui.screens.compare.parts import CONFIG, CURVES, SEEDS, SIDES, CompareParts
from rltui.screens.compare.reading import (
    CompareWatcher,
    EpisodesRead,
    Read,
    ReadFailed,
    SourcesFound,
    read_episode,
)
from rltui.screens.compare.runs import Sentence
from rltui.screens.compare.seeds import SeedHead, sides, table
from rltui.screens.own_app import own_app
from rltui.sources.find import NoSuchRun
from rltui.widgets.header import Header
from rltui.widgets.instead import Instead
from rltui.widgets.lines import focus_now
from rltui.widgets.pane import Pane
from rltui.widgets.virtual_list import VirtualList

if TYPE_CHECKING:
    from rltui.model.compare import Comparison
    from rltui.model.config_diff import Key
    from rltui.screens.runs import RunsScreen
    from rltui.sources.base import RunSource

LOOK_S = 0.25  # between two looks at what was read
PAUSE_S = 0.15  # that the cursor rests before episodes are read


class CompareShown(CompareParts):
    AUTO_FOCUS = ""  # there may be nothing to point at

    def __init__(self) -> None:
        super().__init__()
        self._paths: list[str] = []
        self._comparison: Comparison | None = None
        self._watcher: CompareWatcher | None = None
        self._dirty = False
        self._diff_only = True
        self._config: list[Key] = []
        self._config_of: object = None  # what the keys were made of
        self._finder: Finder | None = None
        self._filter = ""
        self._over: int | None = None  # the run whose evaluations are side by side; None: the runs are
        self._asked = 0
        self._sides: list[Side] = []
        self._pause: Timer | None = None

    def on_mount(self) -> None:
        self.set_interval(LOOK_S, self._look)

    def on_unmount(self) -> None:
        self._stop()

    def _stop(self) -> None:
        if self._watcher is not None:
            self._watcher.stop()
            self._watcher = None

    # Which runs

    def on_screen_resume(self) -> None:
        """Take the runs that are marked."""
        from rltui.model.compare import LEAST, MOST

        rows = cast("RunsScreen", own_app(self).get_screen("runs")).rows
        marked = [row for row in map(rows.of, rows.marks) if row is not None]
        marked.sort(key=lambda row: (row.created or 0.0, row.name))
        paths = [row.path for row in marked[:MOST]]
        self.set_class(len(paths) < LEAST, "-none")
        if len(paths) < LEAST:
            self._say_nothing(len(paths))
            self._stop()
            self._paths, self._comparison = [], None
            self.refresh_bindings()
            return
        if len(marked) > MOST:
            self.say(f"{len(marked)} runs are marked: the {MOST} oldest of them are compared", "watch")
        if paths != self._paths:
            self._begin(paths, [Path(row.name if is_address(row.path) else row.path) for row in marked[:MOST]])
        self._dirty = True
        self._look()

    def _say_nothing(self, marked: int) -> None:
        first = (
            "One run is marked. Mark another one with space in Runs" if marked else "Mark two runs with space in Runs"
        )
        self.query_one("CompareParts > Instead", Instead).say(
            (first, "text"),
            ("Up to six are compared, against the oldest of them at first. 1: to the runs", "dim"),
            ("`rltui compare A B` prints the same", "dim"),
        )
        self.query_one(Header).set_run("")

    def _begin(self, paths: list[str], names: list[Path]) -> None:
        self._stop()
        self._paths = paths
        if not any(map(is_address, paths)):
            self._compare(names, [find(path).source for path in paths])
            return
        self.set_class(True, "-none")
        self.query_one("CompareParts > Instead", Instead).say(("Looking for the runs", "dim"))

        def ask() -> None:
            try:
                self.post_message(SourcesFound(paths, names, [find(path).source for path in paths]))
            except NoSuchRun as error:
                self.post_message(SourcesFound(paths, names, None, str(error)))

        self.run_worker(ask, thread=True, exclusive=True, group="find", exit_on_error=False)

    @on(SourcesFound)
    def _sources_found(self, event: SourcesFound) -> None:
        if event.paths != self._paths:
            return
        if event.sources is None:
            self._paths = []  # so that the next visit asks again
            self.query_one("CompareParts > Instead", Instead).say((event.why, "act"), ("1, then 6: tried again", "dim"))
            return
        self.set_class(False, "-none")
        self._compare(event.names, event.sources)
        self._dirty = True
        self._look()

    def _compare(self, names: list[Path], sources: list[RunSource]) -> None:
        from rltui.model.compare import Comparison
        from rltui.model.compared import ComparedRun

        self._stop()  # the same runs may have been looked for twice
        runs = [ComparedRun(path, source) for path, source in zip(names, sources, strict=True)]
        self._comparison, self._over, self._config_of, self._sides = Comparison(runs), None, None, []
        self._watcher = CompareWatcher(runs, self.post_message, 1.0 / own_app(self).terminal.fps)
        self._watcher.start()
        self.query_one(Header).set_run(f"{len(runs)} runs")
        self._update_runs()
        self.query_one("#compared", VirtualList).set_rows(self.outcome_rows)
        self.place_parts()
        self.refresh_bindings()
        focus_now(self.query_one("#compared"))

    # What was read

    @on(Read)
    def _read(self) -> None:
        self._dirty = True

    @on(ReadFailed)
    def _read_failed(self, event: ReadFailed) -> None:
        self.say(f"{event.why}; it is tried again", "act")

    def _look(self) -> None:
        """Show what is new; without anything new nothing is drawn."""
        if self._dirty and self._comparison is not None and self.is_current:
            self._dirty = False
            self._update()

    def changed_front(self) -> None:
        self.refresh_bindings()
        self._dirty = True
        self._look()

    def _update(self) -> None:
        """Bring what shows up to date."""
        self._update_runs()
        self.query_one("#compared", VirtualList).update_rows()
        if self.shown(CONFIG):
            self._update_config()
        if self.shown(CURVES):
            self._update_curves()
        if self.shown(SEEDS) or self.shown(SIDES):
            self._update_seeds()

    def _update_runs(self) -> None:
        comparison = self._comparison
        assert comparison is not None
        reading = [run for run in comparison.runs if not run.whole]  # before the rest: it goes on meanwhile
        values = tuple(map(id, (run.values for run in comparison.runs)))
        if values != self._config_of:
            self._config_of, self._config = values, comparison.config()
        unlike = [bool(comparison.unlike_rewards(i, self._config)) for i in range(len(comparison.runs))]
        self.outcome_rows.update(comparison.outcomes(), comparison.names, comparison.tests(), unlike)
        pane = self.query_one("#outcome", Pane)
        done = len(comparison.runs) - len(reading)
        pane.set_info(f"read {done} of {len(comparison.runs)}" if reading else f"{len(comparison.runs)} runs")
        at = "the newest of each run" if comparison.at is None else f"up to step {comparison.at}"
        pane.set_subtitle(f"evaluations: {at}")
        self._say_sentence()

    @on(VirtualList.Highlighted, "#compared")
    def _say_sentence(self) -> None:
        comparison, at = self._comparison, self.query_one("#compared", VirtualList).cursor
        if comparison is not None:
            self.query_one(Sentence).say(comparison.sentence(at, self._config))

    def _update_config(self) -> None:
        comparison = self._comparison
        assert comparison is not None
        differing = [key for key in self._config if key.differs]
        missing = comparison.missing()
        self.config_rows.update(differing if self._diff_only else self._config, missing, len(comparison.runs))
        self.query_one("#config", VirtualList).update_rows()
        pane = self.query_one("#config-pane", Pane)
        pane.set_info(f"{len(differing)} of {len(self._config)} keys differ" if self._config else "")
        pane.set_subtitle("" if self._diff_only else "all keys")
        pane.set_class(not len(self.config_rows), "-none")
        words = "No key differs" if self._config else "The configs are not read yet"
        if not self._config and all(run.whole for run in comparison.runs):
            words = "No run has a resolved.json that can be read"
        pane.query_one(Instead).say((words, "dim"), *([("d: all keys", "dim")] if self._config else []))

    def _update_curves(self) -> None:
        comparison = self._comparison
        assert comparison is not None
        names = comparison.metrics()
        try:
            kept = self._finder.among(names) if self._finder is not None else names
        except FindError as error:  # it takes too long
            self._filter, self._finder, kept = "", None, names
            self.say(f"{error}; all curves are shown", "watch")
        curves = self.query_one(Curves)
        curves.note = f"that match {self._filter}" if self._finder is not None else ""
        curves.show(comparison, kept)
        curves.refresh_data()

    # Seeds

    def _update_seeds(self) -> None:
        comparison, pane = self._comparison, self.query_one("#seeds-pane", Pane)
        assert comparison is not None
        rows, headings, base = table(comparison, self._over)
        self.seed_rows.update(rows, headings, base)
        self.query_one("#seeds", VirtualList).update_rows()
        self.query_one(SeedHead).refresh_changed()
        pane.set_title("Seeds" if self._over is None else f"Seeds of {comparison.names[self._over]} over time")
        pane.set_info(f"{len(rows)} seed{'s' * (len(rows) != 1)}")
        order = "by difference" if self.seed_rows.by_difference else "by seed"
        against = comparison.names[base] if self._over is None else headings[base].words if headings else ""
        pane.set_subtitle(f"{order}, against {against}" if against else order)
        pane.set_class(not rows, "-none")
        if not rows:
            whole = all(run.whole for run in comparison.runs)
            words = "No evaluation is recorded" if whole else "The episodes are being read"
            hint = [("evaluation.every_n_iters in the config asks for one", "dim")] if whole else []
            pane.query_one(Instead).say((words, "dim"), *hint)
        self._read_sides()

    @on(VirtualList.Highlighted, "#seeds")
    def _seed_highlighted(self) -> None:
        if self._pause is not None:
            self._pause.stop()
        self._pause = self.set_timer(PAUSE_S, self._read_sides)

    def _read_sides(self) -> None:
        """Have the episodes of the seed under the cursor read, unless they are there."""
        comparison, at = self._comparison, self.query_one("#seeds", VirtualList).cursor
        if comparison is None or self._watcher is None or not self.shown(SIDES):
            return
        wanted = sides(comparison, self._over, self.seed_rows.row(at).seed) if at < len(self.seed_rows) else []
        if wanted == self._sides:
            return
        self._sides, self._asked = wanted, self._asked + 1
        asked = self._asked
        ask = [(comparison.runs[side.run].source, side.played[0].n if side.played else None) for side in wanted]

        def job() -> None:
            if asked == self._asked:
                found = [read_episode(source, n) for source, n in ask]
                self.post_message(EpisodesRead(asked, found))

        self._watcher.do(job)

    @on(EpisodesRead)
    def _episodes_read(self, event: EpisodesRead) -> None:
        if event.asked == self._asked:
            self.query_one(Sides).show(self._sides, event.found, last=self._over is not None)
