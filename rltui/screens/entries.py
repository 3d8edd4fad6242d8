"""What the palette offers: every action, the runs of the folder, the tabs and metrics of the open run, the themes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from textual.screen import Screen

from rltui.model.metric_view import ordered
from rltui.screens.palette import Entry, action_entries
from rltui.screens.runs import RunsScreen

if TYPE_CHECKING:
    from rltui.app import RltuiApp


def entries(app: RltuiApp, screen: Screen[object]) -> list[Entry]:
    """Asked before the palette opens, while the focus is where the person is."""
    found = action_entries(app, screen)
    runs = app.get_screen("runs")
    if isinstance(runs, RunsScreen):
        found += [Entry("run", row.name, partial(app.open_run, row.path), detail=row.state) for row in runs.rows.all()]
    found += fields(app)
    model = app.opened.model if app.opened is not None else None
    if model is not None:
        found += [
            Entry("metric", name, partial(app.show_tab, "metrics", metric=name))
            for name in ordered(model.metrics.names())
        ]
    for name in app.themes.list():
        worn = "is worn now" if name == app.look.theme.name else ""
        found.append(Entry("theme", name, partial(app.show_theme, name), detail=worn))
    return found


def fields(app: RltuiApp) -> list[Entry]:
    """The fields of the config that is open, to go to."""
    screen = app.config_screen
    if screen is None or screen.view is None:
        return []
    return [
        Entry("field", row.key, partial(app.show_field, row.key), detail=row.known.summary if row.known else "")
        for row in screen.view.rows
    ]
