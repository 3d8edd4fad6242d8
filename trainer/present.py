"""Who waits now, and how many are where: what status.json says of the pipeline (WIRE 5.4)."""

from __future__ import annotations

from typing import Any, Protocol

from trainer.outage import Outage
from trainer.rollout.dispatcher import Dispatcher
from trainer.rollout.judging import Judging
from trainer.waiting import Wait, Waits


class Ledger(Protocol):
    """Of the gateway."""

    @property
    def generating(self) -> int: ...


class Steps(Protocol):
    step: int


class Learner(Protocol):
    @property
    def work(self) -> Wait | None: ...


class Present:
    """Reads the parts of a pipeline."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        waits: Waits,
        outage: Outage,
        ledger: Ledger,
        done: Steps,
        learner: Learner,
        judging: Judging | None = None,
    ) -> None:
        self._dispatcher, self._waits, self._outage = dispatcher, waits, outage
        self._ledger, self._done, self._learner, self._judging = ledger, done, learner, judging

    def waits(self) -> list[Wait]:
        """Of those that the run's progress hangs on."""
        meter, waits = self._dispatcher.meter, self._waits.present
        if meter.held_since is not None:
            waits.append(Wait("rollouts", "policy", f"weights after step {self._done.step}", meter.held_since))
        if meter.judge_since is not None:
            on = f"the scores of {meter.judging} episode{'s' if meter.judging > 1 else ''}"
            waits.append(Wait("rollouts", "judge", on, meter.judge_since))
        return waits if self._outage.wait is None else [*waits, self._outage.wait]

    def works(self) -> list[Wait]:
        """What the learner is at: no wait, unless it takes far too long."""
        return [] if (work := self._learner.work) is None else [work]

    def replies(self) -> list[Wait]:
        """What the episodes in flight wait for, and the others through them."""
        running, generating = self._dispatcher.running, self._generating
        if not running:
            return []
        since, playing = self._dispatcher.oldest_start, running - generating - self._dispatcher.meter.judging
        waits = [Wait("rollouts", "task_app", f"{playing} task app replies", since)] if playing > 0 else []
        return waits + ([Wait("rollouts", "engine", f"{generating} model calls", since)] if generating else [])

    def depths(self) -> dict[str, Any]:
        learner = {"learner": "waiting"} if any(wait.who == "learner" for wait in self._waits.present) else {}
        judge = self._judging.depths() if self._judging is not None else {}
        return {**self._dispatcher.depths(), "generating": self._generating, **judge, **learner}

    @property
    def _generating(self) -> int:
        return min(self._ledger.generating, self._dispatcher.running)
