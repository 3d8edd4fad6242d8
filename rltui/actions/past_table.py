"""Actions of the past: moving in the time of a run."""

from __future__ import annotations

from rltui.actions.action import Action

PAST: tuple[Action, ...] = (
    Action("past.step_back", (",",), "step", "One step back in time.", footer=True, palette=False, pair="step_on"),
    Action("past.step_on", (".",), "step", "One step on in time.", palette=False),
    Action("past.tenth_back", ("<",), "tenth", "A tenth of the run back.", footer=True, palette=False, pair="tenth_on"),
    Action("past.tenth_on", (">",), "tenth", "A tenth of the run on.", palette=False),
)
