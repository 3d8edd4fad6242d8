"""Ray Jobs over HTTP: the API that a cluster's dashboard has for them (docs.ray.io, Ray Jobs REST API). Without Ray
itself, which need not be installed where a run is only started and watched."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Any

from rltui.launch.base import LaunchError
from rltui.text import clean

ANSWER_S = 10.0
DASHBOARD_PORT = 8265  # Ray's own default
ENDED = ("SUCCEEDED", "FAILED", "STOPPED")
_CLIENT = re.compile(r"ray://(\[[^\]]+\]|[^:/]+)(?::\d+)?/?")


def dashboard_of(text: str) -> str:
    """The dashboard's address. `ray://HOST:PORT` is what Ray's client connects to, another server of the head node: of
    that the dashboard is taken to be at its usual port. `ray:http://HOST:PORT` names it. LaunchError: neither."""
    if found := _CLIENT.fullmatch(text):
        return f"http://{found[1]}:{DASHBOARD_PORT}"
    address = text.removeprefix("ray:").rstrip("/")
    if address.startswith(("http://", "https://")) and address.partition("://")[2]:
        return address
    raise LaunchError(f"{text!a} is no Ray cluster", "ray://HOST, or ray:http://HOST:8265, its dashboard", refused=True)


@dataclass(frozen=True)
class JobState:
    """status: PENDING, RUNNING, SUCCEEDED, FAILED, STOPPED."""

    status: str
    message: str
    exit_code: int | None  # of the entrypoint

    @property
    def over(self) -> bool:
        return self.status in ENDED


class RayJobs:
    """`address`: of the dashboard. Every call raises LaunchError where it gives no answer, or says no."""

    def __init__(self, address: str) -> None:
        self.address = address

    def version(self) -> str:
        return str(self._call("GET", "/api/version").get("ray_version", "?"))

    def submit(self, submission_id: str, entrypoint: str, env: dict[str, str], metadata: dict[str, str]) -> None:
        """A job that is there already is this one: it was asked for twice, or the answer was lost."""
        body = {
            "entrypoint": entrypoint,
            "submission_id": submission_id,
            "runtime_env": {"env_vars": env},
            "metadata": metadata,
        }
        try:
            self._call("POST", "/api/jobs/", body)
        except LaunchError as refused:
            try:
                self.state(submission_id)
            except LaunchError:
                raise refused from None

    def state(self, submission_id: str) -> JobState:
        found = self._call("GET", f"/api/jobs/{submission_id}")
        code, message = found.get("driver_exit_code"), clean(str(found.get("message") or ""), 4000)
        return JobState(str(found.get("status", "")), message, code if type(code) is int else None)

    def stop(self, submission_id: str) -> None:
        """SIGTERM, and SIGKILL after RAY_JOB_STOP_WAIT_TIME_S of its environment."""
        self._call("POST", f"/api/jobs/{submission_id}/stop")

    def forget(self, submission_id: str) -> None:
        self._call("DELETE", f"/api/jobs/{submission_id}")

    def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        import httpx

        token = os.environ.get("RAY_AUTH_TOKEN")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        try:
            answer = httpx.request(method, self.address + path, json=body, headers=headers, timeout=ANSWER_S)
            found = answer.json() if answer.status_code == 200 else {}
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            why = clean(str(error), 300) or type(error).__name__
            hint = "`ray start --head` prints its dashboard's address; ray:http://HOST:PORT names it"
            raise LaunchError(f"no answer from the Ray dashboard at {self.address}: {why}", hint) from None
        except ValueError:
            raise LaunchError(f"what answers at {self.address} is no Ray dashboard") from None
        if answer.status_code in (401, 403):
            raise LaunchError(f"the Ray dashboard at {self.address} wants a token", "put it in RAY_AUTH_TOKEN")
        if answer.status_code != 200:
            lines = [line for line in answer.text.splitlines() if any(map(str.isalpha, line))]
            text = clean(lines[-1].strip() if lines else "", 500)
            raise LaunchError(f"Ray answered {answer.status_code} to {method} {path}: {text}")
        return found if isinstance(found, dict) else {}
