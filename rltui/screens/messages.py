"""What watchers tell the screens. Each is posted from a thread, so each carries only what cannot change any more."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual.message import Message

if TYPE_CHECKING:
    from rltui.model.run import Change, RunModel
    from rltui.sources.folder import RunRow


class RunsChanged(Message):
    """Runs of a folder that are new or not as they were. `gone`: names that are no runs any more. `scanned` of `total`:
    while the folder is read for the first time; equal afterwards."""

    def __init__(self, folder: Path, rows: list[RunRow], gone: list[str], scanned: int, total: int) -> None:
        super().__init__()
        self.folder = folder
        self.rows, self.gone, self.scanned, self.total = rows, gone, scanned, total


class RunsFailed(Message):
    """A folder of runs cannot be read: why."""

    def __init__(self, folder: Path, why: str) -> None:
        super().__init__()
        self.folder, self.why = folder, why


class ServerRuns(Message):
    """All that is known of the jobs of a server; one row more for the server itself while it gives no answer."""

    def __init__(self, server: str, rows: list[RunRow]) -> None:
        super().__init__()
        self.server, self.rows = server, rows


class RunOpened(Message):
    """The model of the run that was asked for is there; it is still empty."""

    def __init__(self, model: RunModel) -> None:
        super().__init__()
        self.model = model


class RunChanged(Message):
    """The open run's model knows more than before; `change` names what."""

    def __init__(self, change: Change) -> None:
        super().__init__()
        self.change = change


class RunLost(Message):
    """The open run cannot be read: why. What was read stays."""

    def __init__(self, why: str) -> None:
        super().__init__()
        self.why = why


class SteerChanged(Message):
    """A request to the run has gone a step on, or was refused."""

    def __init__(self, requests: list[Any]) -> None:
        super().__init__()
        self.requests = requests
