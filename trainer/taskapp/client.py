"""Our side of the task app contract (WIRE 1): health gate, task info, and one rollout request at a time.

Retries of a rollout are the dispatcher's, since every try needs a new correlation id. What stops a job is
`TaskAppError`; what costs one episode is `RolloutFailure`.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import httpx

from trainer.taskapp.auth import auth_headers
from trainer.taskapp.bodies import ACCEPTED, Answer, Echoes, no_cookies, read
from trainer.taskapp.codes import clean
from trainer.taskapp.contracts import ServiceInfo, TaskInfo, Taskset
from trainer.taskapp.errors import HealthCheckFailed, RolloutFailure, TaskAppError, TaskAppRejected
from trainer.taskapp.parse import ParsedRollout, parse_rollout
from trainer.taskapp.pool import ClientPool
from trainer.taskapp.reading import Json
from trainer.taskapp.refusals import cause_of, extra_fields, field_errors, is_unauthorised, without
from trainer.taskapp.retries import RETRYABLE_STATUS, Sleep, parse_retry_after

GATE_TIMEOUT_S = 10.0
GATE_WAITS_S = (1.0, 2.0, 4.0, 8.0)
MAX_REDIRECTS = 5
ABORT_S = 5.0  # an app that does not take an abort by then is left alone

Observe = Callable[[str, str, Any, Answer | None, float], None]


class TaskAppClient:
    """An async client of one task app; use it as a context manager, or call `close`.

    timeout_s: `rollout.timeout_s`, the whole of one rollout. max_connections: `max_concurrent_rollouts`.
    observe: told of each request: (method, URL, JSON body, answer or None, seconds).
    notes: what a person should be told once (dropped fields, TLS switched off, no key), in order.
    """

    def __init__(
        self,
        base_url: str,
        *,
        api_key: str | None,
        aliases: Sequence[str] = (),
        timeout_s: float = 600.0,
        max_connections: int = 64,
        observe: Observe | None = None,
    ) -> None:
        self.base_url = base_url.rstrip("/")
        keys = [key.strip() for key in (api_key or "", *aliases) if key.strip()]
        _check_url_and_keys(self.base_url, keys)
        self.notes: list[str] = []
        self.timeout_s = timeout_s
        self._observe = observe
        self._dropped: tuple[tuple[str, ...], ...] = ()
        self._aborts: set[asyncio.Task[None]] = set()
        self._echoes = Echoes(keys)
        insecure = os.environ.get("RLTUI_INSECURE_TLS") == "1"
        if insecure:
            self.notes.append("RLTUI_INSECURE_TLS=1: certificates of the task app are not checked")
        if not keys:
            self.notes.append("ENVIRONMENT_API_KEY is not set: requests go to the task app without a key")
        trust_env = not _is_loopback(self.base_url)
        verify = httpx.create_ssl_context(verify=not insecure, trust_env=trust_env)  # once: it takes 20 ms

        def make(limits: httpx.Limits) -> httpx.AsyncClient:
            return httpx.AsyncClient(
                headers={**auth_headers(keys), **ACCEPTED},
                cookies=no_cookies(),
                timeout=httpx.Timeout(None, connect=GATE_TIMEOUT_S),
                limits=limits,
                verify=verify,
                trust_env=trust_env,
            )

        self._pool = ClientPool(make, max_connections)

    def raise_connections(self, limit: int) -> None:
        """When `max_concurrent_rollouts` was raised while the run is going."""
        self._pool.raise_to(limit)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends the connections, once the aborts of cancelled episodes are out."""
        if self._aborts:
            await asyncio.wait(self._aborts)
        await self._pool.close()

    def new_notes(self) -> list[str]:
        """What a person should be told and was not yet told."""
        notes, self.notes = self.notes, []
        return notes

    async def health_gate(self, sleep: Sleep = asyncio.sleep) -> Taskset:
        """Passes if `/health` and `/task_info` both answer 200; returns the task set of the latter."""
        found = await self.gate(sleep)
        (health, _), (task_info, answer) = found["/health"], found.get("/task_info", ("not asked", None))
        if health == task_info == "200" and answer is not None:
            return Taskset.of(answer.json_or_none())
        hint = f"Start the task app, or correct services.task_url (now {self._shown()})"
        if "/task_info" in found:
            hint = _gate_hint({health, task_info}, self._shown())
        raise HealthCheckFailed(f"Task app health check failed: /health={health}, /task_info={task_info}", hint)

    async def gate(self, sleep: Sleep = asyncio.sleep) -> dict[str, tuple[str, Answer | None]]:
        """What each path of the gate answers: its status, or words for none. Without a connection `/health` alone.

        Only connection and name errors are tried again: 5 tries, waits of 1, 2, 4 and 8 s.
        """
        for wait in (*GATE_WAITS_S, None):
            try:
                return {path: await self._gate_get(path) for path in ("/health", "/task_info")}
            except httpx.ConnectError as error:
                if wait is None:
                    return {"/health": (_transport(error), None)}
                await sleep(wait)
        raise AssertionError("the last try returns")

    async def is_up(self) -> bool:
        """Whether `/health` answers 200 now."""
        try:
            status, _ = await self._gate_get("/health")
        except httpx.ConnectError:
            return False
        return status == "200"

    async def info(self) -> ServiceInfo:
        """`GET /info`: rubrics and limits. An app without it, or with a broken one, gives the empty model."""
        answer = await self._get("/info")
        return ServiceInfo.read(answer.json_or_none() if answer.status == 200 else None)

    async def taskset(self) -> Taskset:
        """`GET /task_info` without a seed."""
        answer = await self._get("/task_info")
        return Taskset.of(answer.json_or_none() if answer.status == 200 else None)

    async def task_info(self, seeds: Sequence[int]) -> list[TaskInfo]:
        """`GET /task_info?seed=…`, one TaskInfo per seed that the app describes, in the app's order."""
        answer = await self._get("/task_info", params=[("seed", seed) for seed in seeds])
        if answer.status != 200:
            raise self._rejected("request", answer, f"GET /task_info answered {answer.status}")
        body = answer.json_or_none()
        return [TaskInfo.read(item) for item in (body if isinstance(body, list) else [body])]

    async def rollout(self, body: Json) -> ParsedRollout:
        """Plays one episode. `body` comes from `contracts.rollout_request`; its `run_id` is the cid.

        Raises `RolloutFailure` (one episode; `.retryable`, `.retry_after`) or `TaskAppRejected` (the job
        stops). An episode that is over the time limit or cancelled is aborted at the app as far as that goes.
        """
        cid = body["run_id"]
        try:
            async with asyncio.timeout(self.timeout_s):
                answer = await self._post_rollout(body)
        except TimeoutError:
            await self.abort(cid)
            raise RolloutFailure("timeout", {"limit_s": round(self.timeout_s, 1)}) from None
        except asyncio.CancelledError:
            abort = asyncio.create_task(self.abort(cid))  # on its own: whoever cancels us does not wait for the app
            self._aborts.add(abort)
            abort.add_done_callback(self._aborts.discard)
            raise
        except httpx.HTTPError as error:
            detail = {"status": f"nothing ({_transport(error)})", "tries": 1}
            raise RolloutFailure("http_error", detail, clean(str(error))) from None
        self._check_status(answer)
        parsed = parse_rollout(answer.json(), cid=cid, raw=answer.evidence)
        parsed.status, parsed.body_bytes = answer.status, len(answer.body)
        return parsed

    async def abort(self, run_id: str) -> None:
        """Best effort: tells the app to give up an episode; whatever it answers is ignored."""
        try:
            async with asyncio.timeout(ABORT_S):
                await self._request("POST", "/run/abort", json={"run_id": run_id})
        except (TimeoutError, httpx.HTTPError, TaskAppRejected):
            pass

    async def _post_rollout(self, body: Json) -> Answer:
        """Posts, once more if the app refuses extra fields only; what it refused is left out from then on."""
        answer = await self._request("POST", "/rollout", json=without(body, self._dropped))
        if answer.status == 422 and (extra := extra_fields(answer.json_or_none(), body)):
            if new := [path for path in extra if path not in self._dropped]:  # episodes at once may learn the same
                self._dropped += tuple(new)
                names = ", ".join(".".join(path) for path in new)
                self.notes.append(f"the task app refuses extra fields; left out from now on: {names}")
            answer = await self._request("POST", "/rollout", json=without(body, self._dropped))
        return answer

    def _check_status(self, answer: Answer) -> None:
        status = answer.status
        if 200 <= status < 300:
            return
        if status in (401, 403) or (status == 400 and is_unauthorised(answer.json_or_none())):
            raise self._rejected("auth", answer, "the app rejected ENVIRONMENT_API_KEY")
        if status in (404, 405):
            raise self._rejected("route", answer, f"POST /rollout answered {status}")
        if status == 422:
            fields = field_errors(answer.json_or_none())
            raise self._rejected("request", answer, f"the app refused the request: {fields}")
        retryable = status in RETRYABLE_STATUS
        code = "http_error" if retryable or status >= 500 else "http_rejected"
        said = cause_of(answer.json_or_none())
        raise RolloutFailure(
            code,
            {"status": status, "tries": 1, **({"said": said} if said else {})},
            answer.evidence,
            retryable,
            retry_after=parse_retry_after(answer.headers.get("retry-after"), datetime.now(UTC)),
        )

    def _rejected(self, reason: str, answer: Answer, message: str) -> TaskAppRejected:
        hint = _REJECTED_HINTS[reason].format(url=self._shown())
        return TaskAppRejected(reason, message, hint, status=answer.status, evidence=answer.evidence)

    async def _gate_get(self, path: str) -> tuple[str, Answer | None]:
        """(what to call the result, the answer); connection errors pass through."""
        try:
            async with asyncio.timeout(GATE_TIMEOUT_S):
                answer = await self._request("GET", path)
            return str(answer.status), answer
        except httpx.ConnectError:
            raise
        except TimeoutError:
            return f"no answer within {GATE_TIMEOUT_S:g} s", None
        except httpx.HTTPError as error:
            return _transport(error), None
        except TaskAppRejected as error:
            return f"{error.status} to another origin", None

    async def _get(self, path: str, params: Any = None) -> Answer:
        """A GET outside the gate; no connection is said as the gate says it."""
        try:
            async with asyncio.timeout(GATE_TIMEOUT_S):
                return await self._request("GET", path, params=params)
        except (TimeoutError, httpx.HTTPError) as error:
            cause = _transport(error) if isinstance(error, httpx.HTTPError) else "no answer in time"
            hint = f"Check that the task app at {self._shown()} is running"
            raise HealthCheckFailed(f"GET {path} failed: {cause}", hint) from None

    async def _request(self, method: str, path: str, *, json: Any = None, params: Any = None) -> Answer:
        """One request; redirects are followed on the same origin only, so that keys never leave it."""
        url = httpx.URL(self.base_url + path)
        if params:
            url = url.copy_merge_params(params)
        for redirects in range(MAX_REDIRECTS + 1):
            began, answer = time.monotonic(), None
            try:
                async with self._pool.client() as http, http.stream(method, url, json=json) as response:
                    answer = await read(response, self._echoes)
            finally:
                if self._observe is not None:
                    self._observe(method, str(url), json, answer, time.monotonic() - began)
            location = response.headers.get("location")
            if response.status_code not in (301, 302, 303, 307, 308) or not location:
                return answer
            try:
                target = url.join(location)
            except httpx.InvalidURL:
                target = httpx.URL()
            if _origin(target) != _origin(url):
                raise self._rejected("redirect", answer, "the task app redirects to another address")
            if redirects == MAX_REDIRECTS:
                raise self._rejected("redirect", answer, f"the task app redirects more than {MAX_REDIRECTS} times")
            url = target
            if response.status_code == 303:
                method, json = "GET", None
        raise AssertionError("the last request returns or raises")

    def _shown(self) -> str:
        """The base URL without a password in it."""
        url = httpx.URL(self.base_url)
        return str(url.copy_with(username=None, password=None)) if url.userinfo else self.base_url


_REJECTED_HINTS = {
    "auth": "Set ENVIRONMENT_API_KEY to the key that the task app at {url} was started with",
    "route": "Check services.task_url ({url}): there is no task app behind it",
    "request": "Change the config keys behind these fields (a seed comes from evaluation.seeds, or data.seed_start and "
    "data.seed_count; env.config from rollout.env_config, policy.config from rollout.policy_config), or the task app",
    "redirect": "Set services.task_url (now {url}) to the final address: keys are not sent elsewhere",
}


def _check_url_and_keys(url: str, keys: Sequence[str]) -> None:
    """Refuses what the HTTP library would refuse later, with a text that may repeat the key."""
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        httpx.URL(url)
    except (ValueError, httpx.InvalidURL):
        good = False
    if not good:
        raise TaskAppError(f"{clean(url)} is not a URL", "Set services.task_url to an http(s) address")
    if not all(key.isascii() and key.isprintable() for key in keys):
        hint = "Set it to printable ASCII characters, here and where the task app is started"
        raise TaskAppError("ENVIRONMENT_API_KEY holds characters that no HTTP header can carry", hint)


def _is_loopback(url: str) -> bool:
    """Loopback apps are never met through a proxy of the environment."""
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return False
    return host in ("localhost", "::1") or host.startswith("127.")


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port or {"http": 80, "https": 443}.get(url.scheme)


def _transport(error: httpx.HTTPError) -> str:
    """A transport error in words."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ConnectionRefusedError):
            return "connection refused"
        cause = cause.__cause__ or cause.__context__
    names: tuple[tuple[type[httpx.HTTPError], str], ...] = (
        (httpx.ConnectTimeout, "no connection in time"),
        (httpx.ConnectError, "no connection"),
        (httpx.RemoteProtocolError, "connection closed in mid-answer"),
        (httpx.DecodingError, "an answer that cannot be decoded"),
        (httpx.TransportError, "connection lost"),
    )
    words = next((text for kind, text in names if isinstance(error, kind)), type(error).__name__)
    text = clean(str(error), 120)
    return f"{words}: {text}" if text and isinstance(error, httpx.ConnectError) else words


def _gate_hint(statuses: set[str], url: str) -> str:
    if statuses & {"400", "401", "403"}:
        return _REJECTED_HINTS["auth"].format(url=url)
    if "503" in statuses:
        return f"The task app at {url} is not ready; it may have been started without ENVIRONMENT_API_KEY"
    return f"Check that services.task_url ({url}) is a task app and read its log"
