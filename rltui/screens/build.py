"""The seven screens by name, each imported when it is first wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.screen import Screen

if TYPE_CHECKING:
    from rltui.opened import OpenRun


def build(name: str, opened: OpenRun | None) -> Screen[None]:
    """`name`: one of rltui.app.SCREENS; `opened`: the run that is open."""
    if name == "runs":
        from rltui.screens.runs import RunsScreen

        return RunsScreen()
    if name == "config":
        from rltui.screens.config.screen import ConfigScreen

        return ConfigScreen()
    if name == "launch":
        from rltui.screens.launch.screen import LaunchScreen

        return LaunchScreen()
    if name == "monitor" and opened is not None:
        from rltui.screens.monitor.screen import MonitorScreen

        return MonitorScreen(opened)
    if name == "doctor":
        from rltui.screens.doctor.screen import DoctorScreen

        return DoctorScreen()
    if name == "smoke":
        from rltui.screens.smoke.screen import SmokeScreen

        return SmokeScreen()
    if name == "compare":
        from rltui.screens.compare.screen import CompareScreen

        return CompareScreen()
    raise ValueError(f"no screen {name!a}")
