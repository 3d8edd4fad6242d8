"""What can go wrong between us and a task app. Each text is a sentence that says what to do."""

from __future__ import annotations

from typing import Any

from trainer.taskapp.codes import CODES, sentence

EVIDENCE_CHARS = 2_000


class TaskAppError(RuntimeError):
    """Base of the errors that end a job. `message` says what happened, `hint` what to do."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(f"{message}. {hint}" if hint else message)
        self.message = message
        self.hint = hint


class HealthCheckFailed(TaskAppError):
    """The health gate (WIRE 1.3) did not pass; the message names both statuses."""


class TaskAppRejected(TaskAppError):
    """The app refuses every episode alike, so the job stops.

    reason: auth, route (404, 405), request (422), redirect (to another origin).
    """

    def __init__(self, reason: str, message: str, hint: str, *, status: int, evidence: str = "") -> None:
        super().__init__(message, hint)
        self.reason = reason
        self.status = status
        self.evidence = evidence


class RolloutFailure(Exception):
    """One episode is excluded under a code of WIRE 1.6; it never becomes reward 0."""

    def __init__(
        self,
        code: str,
        detail: dict[str, Any] | None = None,
        evidence: str = "",
        retryable: bool | None = None,
        *,
        retry_after: float | None = None,
    ) -> None:
        self.code = code
        self.detail = detail or {}
        self.evidence = evidence[:EVIDENCE_CHARS]
        self.retryable = CODES[code].retryable if retryable is None else retryable
        self.retry_after = retry_after
        super().__init__(code)

    def __str__(self) -> str:
        """The sentence of what is known by now: whoever tries again counts in `detail`."""
        return sentence(self.code, self.detail)
