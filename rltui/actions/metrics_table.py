"""The actions of the Metrics tab."""

from __future__ import annotations

from rltui.actions.action import Action, move

METRICS = (
    Action("metrics.back", ("escape",), "back", "Back to the list; there, take the filter away.", palette=False),
    Action(
        "metrics.filter",
        ("/",),
        "filter",
        "Keep the metrics whose name has a regular expression.",
        footer=True,
        cli="rltui metrics RUN --name RE",
    ),
    Action("metrics.pin", ("p",), "pin", "Pin the metric to the top, or let go of it.", footer=True),
    Action("metrics.limits", ("m",), "y limits", "Give the ends of the y-axis, such as 0 1.", footer=True),
    Action("metrics.copy", ("y",), "copy", "Copy the value at the cursor, or the last one.", footer=True),
    Action(
        "metrics.write",
        ("w",),
        "write",
        "Write all values of the metric to a CSV file.",
        footer=True,
        cli="rltui export RUN --what metrics",
        writes=True,
    ),
    move("metrics.previous", ("k", "up"), "metric", "The metric before.", footer=True, pair="next"),
    move("metrics.next", ("j", "down"), "metric", "The metric after."),
    move("metrics.previous_page", ("pageup",), "page", "The charts before these."),
    move("metrics.next_page", ("pagedown",), "page", "The charts after these."),
    move(
        "metrics.cursor_left",
        ("h", "left"),
        "cursor",
        "Move the charts' cursor left.",
        footer=True,
        pair="cursor_right",
    ),
    move("metrics.cursor_right", ("l", "right"), "cursor", "The charts' cursor right."),
    move("metrics.first", ("g", "home"), "first", "The first metric."),
    move("metrics.last", ("G", "end"), "last", "The last metric."),
)
