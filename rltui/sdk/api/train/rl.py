"""A training job from a program: `RLJob.from_config("my.toml").submit()` (WIRE 4.2, 4.3)."""

from __future__ import annotations

import asyncio
import logging
import os
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from rltui.backend import Backend, BackendError, backend_url, named_token, normal_url
from rltui.job_post import post_job, post_resume
from rltui.sdk.api.train.polling import Polling, sleep
from rltui.sdk.api.train.submitting import Submission, prepare
from rltui.sdk.api.train.typed import Artifact, Checkpoint, JobStatus, Point, Results
from rltui.sdk.own_server import ensure_own_server
from rltui.smoke.net import is_loopback

log = logging.getLogger(__name__)

NO_CONFIG = Path(os.devnull)  # of a job that was submitted before
LOCAL_KEY = "local"  # stands where a server on this machine asks for none
PAGE = 5000


@dataclass
class RLJobConfig:
    """What a job is made of.

    Attributes:
        config_path: the TOML file.
        backend_url: the job server; `overrides` may name another as `backend`.
        api_key: its token.
        task_app_url: default: the variable TASK_APP_URL, else the file's.
        task_app_api_key: default: the variable ENVIRONMENT_API_KEY.
        allow_experimental: no effect: there is no catalogue of models.
        overrides: merged deeply over the file: nested, or with dotted keys; also task_url, model and backend.
        idempotency_key: a second submit with it gives the first one's job.

    Raises:
        FileNotFoundError, ValueError: a part is missing.
    """

    config_path: Path
    backend_url: str
    api_key: str = field(repr=False)
    task_app_url: str | None = None
    task_app_api_key: str | None = field(default=None, repr=False)
    allow_experimental: bool | None = None
    overrides: dict[str, Any] | None = None
    idempotency_key: str | None = None

    def __post_init__(self) -> None:
        self.config_path = Path(self.config_path)
        if not self.config_path.exists():
            raise FileNotFoundError(f"Config file not found: {self.config_path}")
        self.backend_url = _meant(self.backend_url, self.overrides) or ""
        if not self.backend_url:
            raise ValueError("backend_url is required")
        if not self.api_key:
            raise ValueError("api_key is required")
        self.task_app_url = self.task_app_url or os.environ.get("TASK_APP_URL", "").strip() or None
        self.task_app_api_key = self.task_app_api_key or _key_here()


class RLJob:
    """One job on a job server. All methods block, and work inside a running event loop as well; there `wait` is the
    one that does not hold it up.
    """

    def __init__(self, config: RLJobConfig, job_id: str | None = None, skip_health_check: bool = False) -> None:
        self.config = config
        self._job_id = job_id
        self._skip_health_check = skip_health_check
        # Of this object's submit: an answer that was lost must not become a second job.
        self._key = config.idempotency_key or uuid.uuid4().hex
        self._app_key: str | None = None  # that was sent with it

    @classmethod
    def from_config(
        cls,
        config_path: str | Path,
        backend_url: str | None = None,
        api_key: str | None = None,
        task_app_url: str | None = None,
        task_app_api_key: str | None = None,
        allow_experimental: bool | None = None,
        overrides: dict[str, Any] | None = None,
        idempotency_key: str | None = None,
    ) -> RLJob:
        """A job that is still to be submitted. Without `backend_url` and its variables: the server of this machine.

        Raises:
            FileNotFoundError: there is no such file.
            ValueError: no api_key and no SYNTH_API_KEY, for a server elsewhere; or it is no address.
        """
        url, key = _server(_meant(backend_url, overrides), api_key)
        return cls(
            RLJobConfig(
                config_path=Path(config_path),
                backend_url=url,
                api_key=key,
                task_app_url=task_app_url,
                task_app_api_key=task_app_api_key,
                allow_experimental=allow_experimental,
                overrides=overrides,
                idempotency_key=idempotency_key,
            )
        )

    @classmethod
    def from_job_id(cls, job_id: str, backend_url: str | None = None, api_key: str | None = None) -> RLJob:
        """A job that was submitted before. Raises ValueError as `from_config`."""
        url, key = _server(backend_url, api_key)
        return cls(RLJobConfig(config_path=NO_CONFIG, backend_url=url, api_key=key), job_id=job_id)

    @property
    def job_id(self) -> str | None:
        """None before it is submitted."""
        return self._job_id

    def submit(self) -> str:
        """Checks the config and the task app, hands the job to the server and gives its id.

        Where no server answers at the default address, one is started there, detached, and said so.

        Raises:
            ConfigError (a ValueError): the config; its text tells all that is wrong.
            ValueError: the task app does not answer as it should.
            RuntimeError: submitted already, or the server refused it or did not answer.
        """
        if self._job_id:
            raise RuntimeError(f"Job already submitted: {self._job_id}")
        if self.config.config_path == NO_CONFIG:
            raise RuntimeError(
                "Cannot build payload: config_path is required for new jobs. Use from_config() with its file; "
                "from_job_id() is for a job that was submitted before."
            )
        submission = prepare(self.config, check_task_app=not self._skip_health_check)
        ensure_own_server(normal_url(self.config.backend_url))
        job_id = self._post_job(submission)
        if job_id is None:
            raise RuntimeError("Response missing job ID")
        self._job_id, self._app_key = job_id, submission.task_app_key
        return job_id

    def get_status(self) -> JobStatus:
        """The job as it is now. Raises RuntimeError before submit; BackendError."""
        return cast(JobStatus, self._backend.get(self._path))

    def poll_until_complete(
        self,
        *,
        timeout: float = 7200.0,
        interval: float = 10.0,
        on_status: Callable[[dict[str, Any]], object] | None = None,
    ) -> JobStatus:
        """Waits until the job has succeeded, failed or been cancelled, and gives its last status.

        Args:
            timeout: seconds; the job goes on when they are over.
            interval: seconds between two questions.
            on_status: called with every status; what it raises is logged.

        Raises:
            RuntimeError: before submit.
            TimeoutError: names the job and its status.
            BackendError: there is no such job, or ten questions in a row were not answered.
        """
        polling = Polling(self._submitted, timeout, on_status)
        while (done := polling.take(self._ask())) is None:
            sleep(polling.pause(interval))
        return cast(JobStatus, done)

    async def wait(
        self,
        *,
        timeout: float = 7200.0,
        interval: float = 10.0,
        on_status: Callable[[dict[str, Any]], object] | None = None,
    ) -> JobStatus:
        """`poll_until_complete`, for a coroutine: everything else goes on meanwhile."""
        polling = Polling(self._submitted, timeout, on_status)
        while True:
            if (done := polling.take(await asyncio.to_thread(self._ask))) is not None:
                return cast(JobStatus, done)
            await asyncio.sleep(polling.pause(interval))

    def get_results(self) -> Results:
        """What a job that has succeeded came to. Raises RuntimeError for any other."""
        status = self.get_status()
        if status.get("status") != "succeeded":
            raise RuntimeError(f"Job not complete: {status.get('status')}. Call poll_until_complete() first.")
        return status.get("results") or {}

    def cancel(self, mode: str = "graceful") -> dict[str, Any]:
        """Ends the job: "graceful" after a checkpoint, or "now". Repeatable."""
        return self._backend.post(f"{self._path}/cancel", {"mode": mode})

    def control(self, action: str, **args: Any) -> str:
        """Asks the run for something (pause, resume, checkpoint, evaluate, set) and gives the request's id; its
        answer is an event. `control("set", **{"training.learning_rate": 1e-6})`.
        """
        answer = self._backend.post(f"{self._path}/control", {"action": action, "args": args})
        return str(answer.get("control_id"))

    def resume(self, from_step: int | None = None, overrides: Mapping[str, Any] | None = None) -> JobStatus:
        """A further attempt of a job that has ended, from its newest checkpoint or that of `from_step`. The task app's
        key is sent again: no server keeps it.
        """
        body = {"overrides": dict(overrides or {})} | ({} if from_step is None else {"from": from_step})
        app_key = self._app_key or self.config.task_app_api_key or _key_here()
        return cast(JobStatus, post_resume(self._backend, self._submitted, body, app_key=app_key))

    def events(self, since_seq: int = 0) -> list[dict[str, Any]]:
        """All events after that one, as far as there are any now."""
        found: list[dict[str, Any]] = []
        more = True
        while more:
            answer = self._backend.get(f"{self._path}/events", since_seq=since_seq, limit=PAGE, heartbeat=0)
            found += answer["events"]
            since_seq, more = answer["next_seq"], bool(answer["has_more"])
        return found

    def stream(self, since_seq: int = 0) -> Iterator[dict[str, Any]]:
        """Events as they come, each once, until the job has ended. A lost connection is made again."""
        return self._backend.events(f"{self._path}/events/stream", since_seq)

    def metrics(self, name: str | None = None) -> list[Point]:
        """Points of the metric of that name, or of those whose name begins so where it ends in `*`; all of them."""
        found: list[Point] = []
        after, more = {"attempt": 0, "step": -1}, True
        while more:
            answer = self._backend.get(
                f"{self._path}/metrics",
                after_attempt=after["attempt"],
                after_step=after["step"],
                limit=PAGE,
                name=name,
                aliases=None if name else 0,
            )
            found += answer["points"]
            after, more = answer["next_after"], bool(answer["has_more"])
        return found

    def checkpoints(self) -> list[Checkpoint]:
        """Those that are kept, oldest first."""
        found: list[Checkpoint] = self._backend.get(f"{self._path}/checkpoints")["checkpoints"]
        return found

    def artifacts(self) -> list[Artifact]:
        """Every file of every checkpoint that is kept, oldest first."""
        found: list[Artifact] = self._backend.get(f"{self._path}/artifacts")["artifacts"]
        return found

    def download_artifact(self, name: str, path: str | Path) -> Path:
        """Fetches a file to `path` (into it, where that is a folder) and gives where it lies. A call that broke off is
        gone on with by the next one: what there is lies in PATH.part.

        Raises:
            KeyError: no artifact has that name.
            BackendError: refused, no answer, or other bytes than the server says.
            OSError: it cannot be written.
        """
        found = next((one for one in self.artifacts() if one["name"] == name), None)
        if found is None:
            raise KeyError(f"job {self._submitted} has no artifact {name!a}; artifacts() lists them")
        to = Path(path)
        to = to / name.rpartition("/")[2] if to.is_dir() else to
        self._backend.download(found["url"], to, sha256=found.get("sha256"))
        return to

    @cached_property
    def _backend(self) -> Backend:
        key = self.config.api_key
        return Backend(self.config.backend_url, None if key == LOCAL_KEY else key)

    @property
    def _submitted(self) -> str:
        if not self._job_id:
            raise RuntimeError("Job not yet submitted. Call submit() first.")
        return self._job_id

    @property
    def _path(self) -> str:
        return f"/rl/jobs/{self._submitted}"

    def _ask(self) -> dict[str, Any] | BackendError:
        try:
            return self._backend.get(self._path)
        except BackendError as error:
            return error

    def _post_job(self, submission: Submission) -> str | None:
        def told(why: str) -> None:
            log.warning("%s; asking again", why)

        try:
            return post_job(self._backend, submission.body, key=self._key, app_key=submission.task_app_key, told=told)
        except BackendError as error:
            status = "" if error.status is None else f" with status {error.status}"
            raise BackendError(
                f"Job submission failed{status}: {error.detail}", error.status, error.code, error.body
            ) from None


def _key_here() -> str | None:
    """The task app's key, as InProcessTaskApp leaves it."""
    return os.environ.get("ENVIRONMENT_API_KEY", "").strip() or None


def _meant(argument: str | None, overrides: Mapping[str, Any] | None) -> str | None:
    """The server's address: `overrides["backend"]` wins over the argument and the environment (CONFIG 1), and says so.

    Raises ValueError: it is no address.
    """
    given = (overrides or {}).get("backend")
    if given is None:
        return argument
    named, beaten = normal_url(str(given)), backend_url(argument)
    if named != beaten and (argument or beaten != backend_url(env={})):
        log.warning("the job goes to %s, override backend, and not to %s", named, beaten)
    return named


def _server(url: str | None, api_key: str | None) -> tuple[str, str]:
    """(address, token)."""
    address = backend_url(url)
    key = api_key or named_token() or (LOCAL_KEY if is_loopback(address) else None)
    if key is None:
        raise ValueError("api_key is required (provide explicitly or set SYNTH_API_KEY env var)")
    return address, key


__all__ = ["RLJob", "RLJobConfig"]
