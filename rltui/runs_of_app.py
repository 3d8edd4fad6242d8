"""What the app does with runs: which folder and which servers are listed, and the one that is open."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from rltui.launch.runs import is_address
from rltui.watch import FolderWatcher, ServerWatcher

if TYPE_CHECKING:
    from textual.screen import Screen

    from rltui.app import Options
    from rltui.opened import OpenRun
    from rltui.screens.monitor.screen import MonitorScreen
    from rltui.screens.runs import RunsScreen
    from rltui.state import Memory
    from rltui.terminal.capabilities import Terminal
    from rltui.widgets.notice import Level

MOST_SERVERS = 8  # the ones used last


class RunsOfApp:
    """A part of the app. A run is named by its folder or by its address at a job server."""

    opened: OpenRun | None
    _folder: FolderWatcher | None = None
    _servers: dict[str, ServerWatcher]
    _ended: set[str]  # runs whose end was told

    if TYPE_CHECKING:  # the app's own
        options: Options
        terminal: Terminal
        memory: Memory
        screen_stack: list[Screen[Any]]
        _installed_screens: dict[str, Any]
        _driver: Any

        def go(self, name: str) -> None: ...

        def get_screen(self, name: str) -> Screen[Any]: ...

        def uninstall_screen(self, name: str) -> Any: ...

        def say(self, text: str, level: Level = "info") -> None: ...

        def _screen(self, name: str) -> Screen[None]: ...

        def _did(self, command: str, answer: str) -> None: ...

    # Lists

    def watch_folder(self, folder: Path) -> None:
        """List the runs of this folder from now on."""
        if self._folder is not None:
            self._folder.stop()
        runs = self._runs()
        runs.show_folder(folder)
        self._folder = runs.watcher(folder, 1.0)
        self._folder.start()

    @property
    def reading_ended(self) -> bool:
        """Whether a person has ended the reading of the folder."""
        return self._folder is not None and self._folder.ended

    def turn_reading(self) -> None:
        """End the reading of the folder, or go on with it."""
        if self._folder is not None:
            self._folder.turn()

    @property
    def servers(self) -> list[str]:
        """The job servers whose runs are listed beside the folder's, the one used last first."""
        known = self.memory.get("servers")
        return [name for name in known if isinstance(name, str) and is_address(name)] if isinstance(known, list) else []

    def watch_servers(self) -> None:
        """List the jobs of the servers that are known."""
        for name in self.servers:
            self._watch_server(name)

    def add_server(self, name: str) -> None:
        """List the jobs of this server from now on: http(s)://… or ssh://user@host."""
        self.memory.put("servers", [name, *(other for other in self.servers if other != name)][:MOST_SERVERS])
        for other in self._servers.keys() - set(self.servers):
            self.forget_server(other)
        self._watch_server(name)

    def forget_server(self, name: str) -> None:
        """List them no more. Its jobs go on."""
        self.memory.put("servers", [other for other in self.servers if other != name])
        if (watcher := self._servers.pop(name, None)) is not None:
            watcher.stop()
        self._runs().forget_server(name)

    def look_at_server(self, name: str) -> None:
        """Ask it again now."""
        if name in self._servers:
            self._servers[name].soon()

    def _watch_server(self, name: str) -> None:
        if name not in self._servers:
            watcher = self._servers[name] = self._runs().server_watcher(name)
            watcher.start()

    def _runs(self) -> RunsScreen:
        return cast("RunsScreen", self._screen("runs"))

    def stop_watching(self) -> None:
        for watcher in (self._folder, *self._servers.values()):
            if watcher is not None:
                watcher.stop()
        if self.opened is not None:
            self.opened.close()

    # The open run

    def _last_run(self) -> str | None:
        """The one that was open when the interface was left, if it is one of this folder or of a known server."""
        from rltui.sources.find import is_run

        where = self.memory.get("run")
        if not isinstance(where, str):
            return None
        if is_address(where):
            return where if any(where.startswith(f"{name}/") for name in self.servers) else None
        here = Path(where).parent == self.options.runs_dir.absolute()
        return where if here and is_run(Path(where)) else None

    def open_run(self, where: str, screen: str = "monitor") -> None:
        """Show a run in the monitor, or in another of the screens that are about one run."""
        where = where if is_address(where) else str(Path(where).absolute())
        if self.opened is None or self.opened.where != where:
            self._open(where)
            assert self.opened is not None
            self.opened.begin(self.get_screen("monitor").post_message)
        self.go(screen)

    def show_tab(self, tab: str, **place: Any) -> None:
        """A tab of the monitor, at a place, for the run that is open."""
        from rltui.screens.monitor.tab import OpenTab

        self.go("monitor")
        self._monitor().post_message(OpenTab(tab, **place))

    def show_finding(self, rule: str = "") -> None:
        """The Doctor, at one of its rules."""
        from rltui.screens.doctor.screen import DoctorScreen

        self.go("doctor")
        doctor = self.get_screen("doctor")
        if rule and isinstance(doctor, DoctorScreen):
            doctor.point_at(rule)

    def steer_run(self, where: str) -> None:
        """Open a run and ask what it is to do."""
        self.open_run(where)
        self._monitor().steer_soon()

    def _open(self, where: str) -> None:
        from rltui.opened import OpenRun

        if self.opened is not None:
            self.opened.close()
        if "monitor" in self._installed_screens:
            self._remember()
            old = self.get_screen("monitor")
            self.uninstall_screen("monitor")
            if old not in self.screen_stack and old.is_mounted:
                old.remove()
        self.opened = OpenRun(where, period_s=1.0 / self.terminal.fps, did=self._did, memory=self.memory)
        self.memory.put("run", where)
        self._screen("monitor")

    def _remember(self) -> None:
        if "monitor" in self._installed_screens:
            self._monitor().remember()

    def _monitor(self) -> MonitorScreen:
        return cast("MonitorScreen", self.get_screen("monitor"))

    def ended(self, where: str, state: str, name: str) -> None:
        """A run that was going has ended: one bell and one notice of the terminal, unless --quiet."""
        where = where if is_address(where) else str(Path(where).absolute())
        if where in self._ended or state not in ("succeeded", "failed"):
            return
        self._ended.add(where)
        good = state == "succeeded"
        self.say(f"{name} {state}", "good" if good else "act")
        if not self.options.quiet and self._driver is not None:
            from rltui.terminal.notify import bell_and_notice

            self._driver.write(bell_and_notice("finished" if good else "failed", self.terminal.multiplexer))
