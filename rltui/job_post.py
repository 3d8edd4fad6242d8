"""How a job server is asked for a job, and for a further attempt of one (WIRE 3.2)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rltui.backend import Backend

Json = dict[str, Any]

APP_KEY_HEADER = "X-Environment-API-Key"  # of the task app; a server keeps it in memory only
TRIES_S = (0.5, 1.0, 2.0, 4.0, 8.0)  # between tries to post a job, with the same key
LONGEST_S = 30.0  # of the server's checks, which call the task app


def post_job(
    backend: Backend, body: Json, *, key: str, app_key: str | None, told: Callable[[str], object] = lambda _: None
) -> str | None:
    """The new job's id; None: the answer has none. Asked again while that may help: the key makes it one job.

    `key`: of this start. `app_key`: of the task app. `told`: is given why it is asked again. Raises BackendError.
    """
    from rltui.backend import BackendError

    headers = {"Idempotency-Key": key, **app_key_header(app_key)}
    for wait_s in (*TRIES_S, None):
        try:
            answer = backend.post("/rl/jobs", body, headers=headers, timeout_s=LONGEST_S)
            break
        except BackendError as error:
            if wait_s is None or not error.passing:
                raise
            told(error.detail)
        time.sleep(wait_s)
    job_id = answer.get("job_id") or answer.get("id")
    return job_id if isinstance(job_id, str) and job_id else None


def post_resume(backend: Backend, job_id: str, body: Json, *, app_key: str | None) -> Json:
    """The job object. Asked once: a resume has no key, and what was not answered may have been done. BackendError."""
    return backend.post(resume_path(job_id), body, headers=app_key_header(app_key), timeout_s=LONGEST_S)


def resume_path(job_id: str) -> str:
    return f"/rl/jobs/{job_id}/resume"


def app_key_header(app_key: str | None) -> dict[str, str]:
    return {APP_KEY_HEADER: app_key} if app_key else {}
