"""What a tab of the monitor is. A tab that is hidden draws nothing: it is told what changed when it shows again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from textual import events
from textual.containers import Vertical
from textual.message import Message

from rltui.widgets.bindings import allowed
from rltui.widgets.pane import Pane

if TYPE_CHECKING:
    from rltui.model.run import RunModel

ALL = frozenset(
    {"status", "events", "metrics", "groups", "episodes", "checkpoints", "findings", "error", "judge", "lags"}
)


NARROW = 100  # columns, below which a tab shows one pane at a time


class OpenTab(Message):
    """Another tab is wanted, at a place: `iteration` and `split` for rollouts."""

    def __init__(self, tab: str, **place: Any) -> None:
        super().__init__()
        self.tab, self.place = tab, place


class Tab(Vertical):
    """Override `update` and `start`; `compose` as usual. When it is narrow, or lower than `LEAST_ROWS`, the pane of
    class -front shows alone."""

    DEFAULT_CSS = """
    Tab { width: 1fr; height: 1fr; }
    Tab.-narrow Pane { display: none; }
    Tab.-narrow Pane.-front { display: block; }
    """
    tab = ""  # its name in the table of actions: monitor.NAME
    LEAST_ROWS: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__(id=f"tab-{self.tab}")
        self.pending: frozenset[str] = ALL

    class Ready(Message):
        """The tab can be updated from now on."""

    class Unread(Message):
        """So many lines came to the logs that nobody has seen."""

        def __init__(self, count: int) -> None:
            super().__init__()
            self.count = count

    def on_mount(self) -> None:
        self.call_later(self.post_message, self.Ready())

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """What writes is refused under --readonly."""
        return allowed(self, action)

    def update(self, model: RunModel, what: frozenset[str]) -> None:
        """Show what changed; called only while the tab shows. `what`: names as in model.run.Change."""
        raise NotImplementedError

    def start(self) -> None:
        """Put the focus where a person begins; called when the tab is shown for the first time."""

    def go(self, place: dict[str, Any]) -> None:
        """Show the place that an OpenTab asks for."""

    def follow(self) -> None:
        """Keep the newest in view, or let go of it."""

    @property
    def panes(self) -> list[Pane]:
        return list(self.query(Pane))

    def to_front(self, pane: Pane) -> None:
        """Show this pane where there is room for one."""
        for other in self.panes:
            other.set_class(other is pane, "-front")

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.width < NARROW or event.size.height < self.LEAST_ROWS, "-narrow")

    def place(self) -> dict[str, Any]:
        """What is to be remembered of it for this run."""
        return {}

    def restore(self, place: dict[str, Any]) -> None:
        """Go back to a remembered place; values may be of any type."""
