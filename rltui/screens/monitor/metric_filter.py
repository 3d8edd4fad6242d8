"""Which metrics the list has: what is typed behind `/`."""

from __future__ import annotations

from textual import on

from rltui.model.find import FindError
from rltui.screens.monitor.metric_rows import MetricRows
from rltui.screens.monitor.tab import Tab
from rltui.widgets.lines import focus_now
from rltui.widgets.pane import Pane
from rltui.widgets.prompt import Prompt
from rltui.widgets.virtual_list import VirtualList


class FilteredMetrics(Tab):
    def __init__(self) -> None:
        super().__init__()
        self._rows = MetricRows()

    @property
    def _list(self) -> VirtualList:
        return self.query_one("#metrics", VirtualList)

    def list_again(self) -> None:
        """Other rows: the cursor stays on its metric."""
        raise NotImplementedError

    def action_filter(self) -> None:
        if self.screen.maximized is not None:
            self.screen.minimize()
        self.to_front(self.query_one("#metrics-pane", Pane))
        self.query_one(Prompt).open(self._rows.text)

    @on(Prompt.Changed)
    def _typed(self, event: Prompt.Changed) -> None:
        """A mistake is named, and the last good expression stays."""
        try:
            self._rows.filter(event.value)
        except FindError as error:
            event.prompt.set_note(str(error), "watch")
            return
        event.prompt.set_note("")
        self.list_again()

    @on(Prompt.Submitted)
    def _taken(self, event: Prompt.Submitted) -> None:
        event.prompt.close()
        focus_now(self._list)

    @on(Prompt.Cancelled)
    def _left(self, event: Prompt.Cancelled) -> None:
        self._use(event.prompt.before)

    def clear_filter(self) -> None:
        self._use("")

    def _use(self, text: str) -> None:
        self._rows.filter(text)
        self.list_again()
        focus_now(self._list)
