"""Screen 6: two to six runs against one of them: configs, curves, and the evaluation seed by seed."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.binding import BindingType

from rltui.actions.compare_table import COMPARE
from rltui.model.along import AXES, STEP
from rltui.model.find import Finder, FindError
from rltui.screens.compare.curves import Curves, RunsChart
from rltui.screens.compare.episodes import Sides
from rltui.screens.compare.parts import CONFIG, CURVES, PARTS, SEEDS, SIDES
from rltui.screens.compare.seeds import SeedList
from rltui.screens.compare.shown import CompareShown
from rltui.screens.monitor.writing import write_text
from rltui.screens.own_app import own_app
from rltui.widgets.bindings import bindings
from rltui.widgets.chart import Chart
from rltui.widgets.lines import focus_now
from rltui.widgets.prompt import Prompt
from rltui.widgets.virtual_list import VirtualList

_OF_SIDES = frozenset(("previous_column", "next_column"))
_OF_RUNS = frozenset(action.name for action in COMPARE if action.name != "back")


class CompareScreen(CompareShown):
    BINDINGS: ClassVar[list[BindingType]] = bindings("compare")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Without runs there is only the way back; columns are where episodes stand side by side."""
        if action in _OF_SIDES and not self.shown(SIDES):
            return False
        if action in _OF_RUNS and self._comparison is None:
            return False
        return super().check_action(action, parameters)

    # What is opened

    @on(VirtualList.Selected, "#seeds")
    def _seed_selected(self) -> None:
        self.enter(SIDES)

    @on(SeedList.Wanted)
    def _seeds_wanted(self, event: SeedList.Wanted) -> None:
        if event.what == "sort":
            self.seed_rows.by_difference = not self.seed_rows.by_difference
        elif self._over is None:
            self._over = self.query_one("#compared", VirtualList).cursor
        else:
            self._over = None
        self._update_seeds()

    @on(VirtualList.Selected, "#compared")
    def _run_selected(self, event: VirtualList.Selected) -> None:
        own_app(self).open_run(self._paths[event.index])

    @on(VirtualList.Selected, "#config")
    def _key_selected(self, event: VirtualList.Selected) -> None:
        """A config that begins with that of the run whose value is under the cursor, at this key."""
        row, comparison = self.config_rows.row(event.index), self._comparison
        if row.key is not None and comparison is not None:
            run = row.key.values[row.value].runs[0] if row.value >= 0 else comparison.baseline
            own_app(self).copy_config(self._paths[run], row.key.name)

    @on(Chart.CursorMoved)
    def _cursor_moved(self, event: Chart.CursorMoved) -> None:
        self.query_one(Curves).share(cursor=event.x)

    @on(Chart.Adjusted)
    def _adjusted(self, event: Chart.Adjusted) -> None:
        options = event.chart.options
        curves = self.query_one(Curves)
        curves.share(view=options.view, log_x=options.log_x)
        curves.retitle(event.chart)

    @on(RunsChart.SeedsAsked)
    def _seeds_asked(self, event: RunsChart.SeedsAsked) -> None:
        """The evaluations up to a point, or those that are compared already."""
        if self._comparison is None:
            return
        if event.x is not None and self._comparison.overlay.axis != STEP:
            self.say("a: back to steps, one of which is then the last that counts")
            return
        if event.x is not None:
            self._evaluate_at(int(event.x))
        self.enter(SEEDS)

    def _evaluate_at(self, step: int | None) -> None:
        comparison = self._comparison
        if comparison is not None:
            steps = comparison.steps()
            comparison.at = None if step is None or not steps or step >= steps[-1] else step
            self._update()

    # Actions

    def action_baseline(self) -> None:
        comparison, runs = self._comparison, self.query_one("#compared", VirtualList)
        if comparison is None:
            return
        here = runs.cursor if runs.has_focus else comparison.baseline + 1
        comparison.baseline = here % len(comparison.runs)
        self._update()
        self.say(f"against {comparison.names[comparison.baseline]}")

    def action_axis(self) -> None:
        comparison = self._comparison
        if comparison is None:
            return
        axis = AXES[(AXES.index(comparison.overlay.axis) + 1) % len(AXES)]
        comparison.overlay.axis = axis
        self.query_one(Curves).share(view=None, cursor=None)
        if self.shown(CURVES):
            self._update_curves()
        self.say(f"curves along {axis}s" if axis == STEP else f"curves along {axis}")

    @on(RunsChart.AxisAsked)
    def _axis_asked(self) -> None:
        self.action_axis()

    def action_diff_only(self) -> None:
        self._diff_only = not self._diff_only
        self.bring(CONFIG)
        if self._comparison is not None:
            self._update_config()

    def action_previous_page(self) -> None:
        self._page(-1)

    def action_next_page(self) -> None:
        self._page(1)

    def _page(self, by: int) -> None:
        if self._comparison is None:
            return
        part = (self.front + by) % len(PARTS) if self.narrow else (CONFIG if self.front >= SEEDS else SEEDS)
        kept = self.query_one("#compared").has_focus
        self.bring(part)
        if not kept:
            self.enter(part)

    def action_previous_curves(self) -> None:
        self.query_one(Curves).turn(-1)

    def action_next_curves(self) -> None:
        self.query_one(Curves).turn(1)

    def action_earlier(self) -> None:
        self._by_evaluation(-1)

    def action_later(self) -> None:
        self._by_evaluation(1)

    def _by_evaluation(self, by: int) -> None:
        comparison = self._comparison
        steps = comparison.steps() if comparison is not None else []
        if comparison is None or not steps:
            self.say("no evaluation is recorded")
            return
        at = len(steps) - 1 if comparison.at is None else sum(step <= comparison.at for step in steps) - 1
        self._evaluate_at(steps[max(0, min(len(steps) - 1, at + by))])

    def action_previous_column(self) -> None:
        self.query_one(Sides).go_on(-1)

    def action_next_column(self) -> None:
        self.query_one(Sides).go_on(1)

    def _text(self) -> str:
        from rltui.model.compare_text import lines

        return "\n".join(lines(self._comparison)) + "\n" if self._comparison is not None else ""

    def action_copy(self) -> None:
        if self._comparison is not None:
            own_app(self).copy(self._text(), "comparison")

    def action_write(self) -> None:
        if self._comparison is not None:
            write_text(self, "compare-" + "-".join(self._comparison.names), self._text())

    def action_back(self) -> None:
        """From a pane to the runs; from there back to the list of all runs."""
        if self.maximized is not None:
            self.minimize()
        elif self.focused_part == SIDES:
            self.enter(SEEDS)
        elif self.focused_part is not None:
            focus_now(self.query_one("#compared"))
        else:
            own_app(self).go("runs")

    # The filter of the curves

    def action_filter(self) -> None:
        self.bring(CURVES)
        self.query_one("#curve-filter", Prompt).open(self._filter)

    @on(Prompt.Changed, "#curve-filter")
    def _typed(self, event: Prompt.Changed) -> None:
        """A mistake is named, and the last good expression stays."""
        try:
            finder = Finder(event.value, regex=True) if event.value else None
        except FindError as error:
            event.prompt.set_note(str(error), "watch")
            return
        event.prompt.set_note("")
        self._filter, self._finder = event.value, finder
        if self._comparison is not None:
            self._update_curves()

    @on(Prompt.Submitted, "#curve-filter")
    def _taken(self, event: Prompt.Submitted) -> None:
        event.prompt.close()
        self.enter(CURVES)

    @on(Prompt.Cancelled, "#curve-filter")
    def _left(self, event: Prompt.Cancelled) -> None:
        before = event.prompt.before  # it was good when it was taken
        self._filter, self._finder = before, Finder(before, regex=True) if before else None
        if self._comparison is not None:
            self._update_curves()
        self.enter(CURVES)
