"""The thread of the launch screen: it runs the checks, names the run's folder, and reads what the run takes."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual.message import Message

if TYPE_CHECKING:
    from rltui.cli.start import Plan
    from rltui.launch.base import Launcher
    from rltui.model.estimates import Line
    from rltui.preflight.base import Began, Context, Result
    from rltui.preflight.runner import Preflight


class CheckNews(Message):
    """A check began or ended. `work`: whose it is; that of one that was given up counts no more."""

    def __init__(self, work: Work, event: Began | Result) -> None:
        super().__init__()
        self.work, self.event = work, event


class Planned(Message):
    """The config is valid: the run that it would be, and what that takes."""

    def __init__(self, work: Work, plan: Plan, takes: list[Line]) -> None:
        super().__init__()
        self.work, self.plan, self.takes = work, plan, takes


class Checked(Message):
    """Every check has ended."""

    def __init__(self, work: Work) -> None:
        super().__init__()
        self.work = work


class Work(threading.Thread):
    """One preflight. `post` is called from this thread."""

    def __init__(self, config: Path, launcher: Launcher, run_dir: Path | None, post: Callable[[Message], Any]) -> None:
        super().__init__(name="preflight", daemon=True)
        self.config, self.launcher, self.run_dir = config, launcher, run_dir
        self._post = post
        self._within = contextvars.copy_context()  # who is told may ask it which app this is
        self._lock = threading.Lock()
        self._preflight: Preflight | None = None
        self._stopped = False

    def stop(self) -> None:
        """Give it up. Blocks until what it had started is gone."""
        with self._lock:
            self._stopped = True
            preflight = self._preflight
        if preflight is not None:
            preflight.stop()

    def run(self) -> None:
        self._within.run(self._work)

    def _work(self) -> None:
        import os

        from rltui.preflight.base import Context, Result
        from rltui.preflight.runner import Preflight
        from rltui.preflight.table import checks_of

        context = Context(config=self.config, run_dir=self.run_dir, launcher=self.launcher, environ=os.environ)
        with self._lock:
            if self._stopped:
                return
            self._preflight = Preflight(context, checks_of(self.launcher))
        for event in self._preflight.run():
            self._tell(CheckNews(self, event))
            if isinstance(event, Result) and event.id == "config" and context.loaded is not None:
                self._plan(context)
        self._tell(Checked(self))

    def _plan(self, context: Context) -> None:
        import uuid

        from rltui.cli.output import CliError
        from rltui.cli.start import plan_of
        from rltui.model.estimates import of
        from rltui.preflight.machine import facts_of

        try:
            assert context.loaded is not None
            key = uuid.uuid4().hex  # one key for one plan: a start that was not answered is asked for again with it
            plan = plan_of(
                context.loaded, self.config, context.sets, run_dir=self.run_dir, launcher=self.launcher, key=key
            )
        except CliError:  # the folder holds a run: a check says so
            return
        self._tell(Planned(self, plan, of(context.loaded, facts_of(context)) if self.launcher.shares_disk else []))

    def _tell(self, message: Message) -> None:
        if not self._stopped:
            self._post(message)
