"""A job server, here or elsewhere (WIRE 3): it is asked with one key, so that asking again never starts two."""

from __future__ import annotations

import json
import time
import uuid
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from rltui.job_body import job_body
from rltui.job_post import LONGEST_S, app_key_header, post_job, post_resume, resume_path
from rltui.launch.base import Fact, Job, Launcher, LaunchError, Started
from rltui.sources.base import TERMINAL, Json, Unreadable
from rltui.text import clean

if TYPE_CHECKING:
    from rltui.backend import Backend, BackendError
    from trainer.config import Loaded

KEY_VARIABLE = "ENVIRONMENT_API_KEY"
CLOCK_S = 5.0  # of difference between two clocks, from which on times in views mislead


class ServerLauncher(Launcher):
    shares_disk = False
    outlives = True

    def __init__(self, text: str) -> None:
        self.name = text.rstrip("/")
        self._client: Backend | None = None

    def shown(self, job: Job) -> str:
        """The request, without keys: what a `curl` of it would be."""
        lines = [f"POST {self.name.removesuffix('/api')}/api{self._path(job)}"]
        if not job.resume:
            lines.append(f"Idempotency-Key: {job.key or 'a new one'}")
        return "\n".join([*lines, "", json.dumps(self._body(job), indent=2)])

    def start(self, job: Job) -> ServerRun:
        from rltui.backend import BackendError

        backend, body, app_key = self._backend(), self._body(job), _task_app_key(job)
        job_id: str | None = job.job_id
        try:
            backend.get("/version")  # at once, where there is no server
            if job.resume:
                post_resume(backend, job.job_id, body, app_key=app_key)
            else:
                job_id = post_job(backend, body, key=job.key or uuid.uuid4().hex, app_key=app_key)
        except BackendError as error:
            raise self._refusal(error) from error
        if job_id is None:
            raise LaunchError(f"{self.name} took the job and gave no id of it", "is it a job server of rltui?")
        return ServerRun(backend, job_id, self._address(backend, job_id))

    def facts(self, job: Job | None = None) -> list[Fact]:
        from rltui.backend import BackendError

        try:
            backend = self._backend()
            began = time.monotonic()
            version = backend.get("/version")
            found = [Fact("reachable", True, f"{self.name} answers in {(time.monotonic() - began) * 1000:.0f} ms")]
            if version.get("api") != 1:
                text = f"it speaks version {clean(version.get('api'), 20)} of the job API, this program version 1"
                return [*found, Fact("version", False, text, "install the same rltui on both sides")]
            system = backend.get("/system")
            found += [*self._warnings(), *_system(system)]
            if job is None or job.resume:
                return found
            code = _refused_code(job) if system.get("allow_code") is False else []
            return [*found, *code, *self._task_app(backend, job)]
        except BackendError as error:
            if error.status == 401:
                return [Fact("reachable", False, _said(error), "put its token in the variable RLTUI_API_KEY")]
            return [Fact("reachable", False, _said(error), "`rltui serve` starts one on that machine")]
        except LaunchError as error:
            return [Fact("reachable", False, str(error), error.hint)]

    def _backend(self) -> Backend:
        if self._client is None:
            self._client = backend_at(self.name)
        return self._client

    def _address(self, backend: Backend, job_id: str) -> str:
        return f"{backend.url}/rl/jobs/{job_id}"

    def _task_app(self, backend: Backend, job: Job) -> list[Fact]:
        """Whether the app answers from there."""
        url = self._body(job)["data"]["endpoint_base_url"]
        if not str(url).startswith(("http://", "https://")):
            return []
        headers = app_key_header(_task_app_key(job))
        tried = backend.post("/rl/verify_task_app", {"endpoint_base_url": url}, headers=headers, timeout_s=LONGEST_S)
        if tried.get("any_ok"):
            return [Fact("task app", True, f"{url} answers from there")]
        errors = [*dict.fromkeys(str(one.get("error")) for one in tried.get("attempts") or [] if one.get("error"))]
        text = f"{url} gives no good answer from there{': ' if errors else ''}{clean('; '.join(errors[:2]), 400)}"
        fix = "start it, or give an address that it has for that machine"
        if any(one.get("status") in (400, 401, 403) for one in tried.get("attempts") or []):
            fix = f"set {KEY_VARIABLE} here to the key that the app was started with"
        return [Fact("task app", False, text, fix)]

    def _same_machine(self) -> bool:
        from rltui.smoke.net import is_loopback

        return is_loopback(self.name)

    def _path(self, job: Job) -> str:
        return resume_path(job.job_id) if job.resume else "/rl/jobs"

    def _body(self, job: Job) -> Json:
        if job.resume:
            return {"from": job.from_step, "overrides": dict(_assignment(item) for item in job.sets)}
        from trainer.judge.errors import JudgeMisconfigured

        try:
            body = job_body(_loaded(job), job.config, client="rltui", same_machine=self._same_machine())
        except JudgeMisconfigured as error:
            raise LaunchError(error.message, error.hint, refused=True) from error
        return {**body, "allow_unknown": True} if job.allow_unknown else body

    def _refusal(self, error: BackendError) -> LaunchError:
        if error.status is None:
            hint = f"`rltui serve` starts a server on that machine; is {self.name} its address?"
            return LaunchError(_said(error), hint)
        if error.status == 401:
            return LaunchError(_said(error), "put its token in the variable RLTUI_API_KEY", refused=True)
        return LaunchError(f"{self.name}: {_said(error)}", _hint(error.body), refused=400 <= error.status < 500)

    def _warnings(self) -> list[Fact]:
        if not self.name.startswith("http://") or self._same_machine():
            return []
        host = urlsplit(self.name).hostname
        text = f"what is sent to {host}, keys among it, is not encrypted"
        return [Fact("encryption", None, text, f"--target ssh://{host}, or https in front of it")]


class ServerRun(Started):
    def __init__(self, backend: Backend, job_id: str, address: str) -> None:
        from rltui.sources.http import HttpRunSource

        self._backend, self._path = backend, f"/rl/jobs/{job_id}"
        self.source = HttpRunSource(backend, job_id)
        self.source.place = address
        self.where = f"job {job_id}, {address}"

    def exit_code(self) -> int | None:
        """0 succeeded, 3 failed or cancelled; the codes of the processes stay with the server."""
        try:
            state = (self.source.status() or {}).get("state")
        except Unreadable:
            return None
        return None if state not in TERMINAL else 0 if state == "succeeded" else 3

    def last_words(self) -> tuple[str, str | None]:
        from rltui.backend import BackendError

        try:
            error = self._backend.get(self._path).get("error") or {}
        except BackendError as failure:
            return _said(failure), None
        return str(error.get("message") or "the job ended without a word"), error.get("hint")

    def stop(self) -> None:
        self._cancel("graceful")

    def kill(self) -> None:
        self._cancel("now")

    def waiting(self) -> str:
        from rltui.backend import BackendError

        try:
            job = self._backend.get(self._path)
        except BackendError:
            return ""
        place = job.get("queue_position")
        before = f", {place - 1} before it" if isinstance(place, int) else ""
        return f"{clean(job.get('phase') or '', 80)}{before}"

    def _cancel(self, mode: str) -> None:
        from rltui.backend import BackendError

        try:
            self._backend.post(f"{self._path}/cancel", {"mode": mode})
        except BackendError:  # the run goes on, and its source says why nothing is heard of it
            return


def backend_at(url: str) -> Backend:
    """Raises LaunchError: it is no address of a server."""
    from rltui.backend import Backend

    try:
        return Backend(url)
    except ValueError as error:
        raise LaunchError(str(error), refused=True) from error


def _loaded(job: Job) -> Loaded:
    from trainer.config import ConfigError, load
    from trainer.config.machine import ELSEWHERE

    environ, unknown = job.environ, job.allow_unknown
    try:
        return load(job.config, sets=job.sets, environ=environ, allow_unknown=unknown, machine=ELSEWHERE)
    except ConfigError as error:
        raise LaunchError(str(error), refused=True) from error


def _refused_code(job: Job) -> list[Fact]:
    """What of the config a server refuses that runs no code of its clients."""
    from rltui.server.checks import code_problems

    return [Fact("code", False, f"{found.key}: {found.why}", found.fix or "") for found in code_problems(_loaded(job))]


def _assignment(text: str) -> tuple[str, Any]:
    from trainer.config.sources import from_sets

    given, problems = from_sets([text])
    if problems:
        raise LaunchError(problems[0].why, problems[0].fix or "", refused=True)
    return given[0].key, given[0].value


def _task_app_key(job: Job) -> str | None:
    """The key of the task app, which no config holds; it may stand in the file of env_file_path."""
    key = job.environ.get(KEY_VARIABLE) or ("" if job.resume else _loaded(job).env_file.get(KEY_VARIABLE) or "")
    return key.strip() or None


def _system(found: Json) -> list[Fact]:
    """What the machine has, who is before this job, and whether its clock is ours."""
    facts = []
    gpus = found.get("gpus")
    if isinstance(gpus, list):
        facts.append(Fact("GPUs", True, f"{len(gpus)} GPU{'s' * (len(gpus) != 1)} there"))
    queue = found.get("queue")
    if isinstance(queue, dict):
        queued, running = (int(queue.get(name) or 0) for name in ("queued", "running"))
        text = f"{running} running, {queued} queued" + ("; this one waits its turn" if queued else "")
        facts.append(Fact("queue", True, text))
    now = found.get("time")
    if isinstance(now, int | float) and abs(now - time.time()) > CLOCK_S:
        text = f"its clock is {now - time.time():+.0f} s off ours: ages and times will look wrong"
        facts.append(Fact("clock", None, text, "let both follow a time server"))
    return facts


def _said(error: BackendError) -> str:
    return clean(error.detail, 1000)


def _hint(body: Json | None) -> str:
    """What else is wrong with a refused config: the detail tells the first problem and how to mend it."""
    error = (body or {}).get("error")
    problems = error.get("errors") if isinstance(error, dict) else None
    lines = []
    for problem in problems[1:] if isinstance(problems, list) else []:
        if isinstance(problem, dict):
            key, why = clean(problem.get("key"), 120), clean(problem.get("why") or problem.get("message"), 400)
            lines.append(
                f"{key}: {why}" + (f"; to mend it: {clean(problem['fix'], 200)}" if problem.get("fix") else "")
            )
    return "\n".join(lines)
